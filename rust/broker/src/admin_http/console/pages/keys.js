// Configuration keys: the value, and who said it.

import { SetKey, useWritable } from "../changes.js";
import { Search, Shown, Table, useAsked } from "../parts.js";
import { html, useState } from "../vendor/preact.js";

/** @param {any} key @returns {any[]} */
function row(key) {
	const isDefault = key.source === "default";
	return [
		html`<code>${key.name}</code>
			${key.documentation && html`<small class="muted">${key.documentation}</small>`}`,
		key.sensitive
			? html`<span class="muted">a secret</span>`
			: html`<code class=${isDefault ? "muted" : "set"}><bdi>${key.value ?? "unset"}</bdi></code>`,
		html`${key.source.replace(/_/g, " ")}
			${key.origin && html`<small class="muted"><bdi>${key.origin}</bdi></small>`}`,
		key.read_only ? "fixed" : "any time",
	];
}

/** @param {{ path: string }} props The keys of a topic, or of the broker if the path is empty. */
export function Keys({ path }) {
	const [search, setSearch] = useState("");
	const [all, setAll] = useState(true);
	const of = useAsked(`${path}/config`, { search }, 10_000);
	const writable = useWritable();
	const wanted = (/** @type {any} */ key) => all || key.source !== "default";
	const change = (/** @type {any} */ event) => setAll(!event.target.checked);
	return html`<div class="ask">
			<${Search} label="Search keys" onSearch=${setSearch} />
			<label class="check"><input type="checkbox" checked=${!all} onChange=${change} />
				only what is set</label>
		</div>
		<${Shown} of=${of} show=${(data) => html`<p class="whose">
				In force on broker ${data.broker_id}.
			</p>
			${writable &&
			html`<${SetKey} path=${path} broker=${data.broker_id} onDone=${of.reload} />`}
			<${Table}
				caption="Keys"
				columns=${[["Key"], ["Value"], ["Said by"], ["May change"]]}
				rows=${data.keys.filter(wanted).map(row)}
				empty="No key has this in its name."
			/>`} />`;
}
