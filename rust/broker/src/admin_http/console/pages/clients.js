// Connections, what clients report of themselves, and single requests.

import { count, duration } from "../format.js";
import { Heading, Search, Shown, Table, Tabs, at, usePages } from "../parts.js";
import { ink } from "../plane/layout.js";
import { Waterfall } from "../plane/waterfall.js";
import { html, useState } from "../vendor/preact.js";
import { owner, useFigures } from "../whose.js";
import { Reports } from "./reports.js";

const VIEWS = /** @type {Record<string, string>} */ ({
	connections: "",
	metrics: "",
	recent: "A sample of the requests that were answered, taken while someone looks.",
	slow: "Requests that took long in the broker; waits that their client asked for do not count.",
	waiting: "Requests without an answer, if kafkalite.recent.requests is set.",
});

function Connections() {
	const [search, setSearch] = useState("");
	const { after, pager, restart } = usePages();
	const of = useFigures("/clients", { search, after, limit: 100 });
	const look = (/** @type {string} */ text) => {
		restart();
		setSearch(text);
	};
	return html`<div class="ask"><${Search} label="Search connections" onSearch=${look} /></div>
		<${Shown} of=${of} show=${(data) => html`<p class="whose">
				${count(data.total)} connections to ${owner(data)}.
				${data.figures_of &&
				` ${count(data.connections.length)} are shown: the first of each broker.`}
			</p>
			<${Table}
				caption="Connections"
				columns=${[
					["Client"], ["Software"], ["Address"], ["Broker", "number"], ["Listener"],
					["Open", "number"], ["Requests", "number"], ["Last request", "number"],
				]}
				rows=${data.connections.map((/** @type {any} */ one) => [
					html`<bdi>${one.client_id ?? "–"}</bdi>`,
					html`<bdi>${one.software ?? "–"}</bdi> <small class="muted">
						<bdi>${one.software_version}</bdi></small>`,
					one.peer,
					one.broker_id ?? data.broker_id,
					one.listener,
					duration(one.open_ms),
					count(one.requests),
					one.last_request_ms_ago === null ? "–" : `${duration(one.last_request_ms_ago)} ago`,
				])}
				empty="No connection fits."
			/>
			${pager(data.next)}`} />`;
}

/** @param {{ kind: string }} props */
function Requests({ kind }) {
	const [picked, pick] = useState(/** @type {RequestRow | null} */ (null));
	const of = useFigures("/requests", { kind, limit: 100 }, 1000);
	return html`${picked && html`<${Waterfall} request=${picked} onClose=${() => pick(null)} />`}
		<${Shown} of=${of} show=${(data) => html`<p class="whose">
				${VIEWS[kind]} Those of ${owner(data)}.
				${kind === "slow" && ` Slow begins at ${data.slow_ms} ms.`}
			</p>
			<${Table}
				caption="Requests, the newest first"
				columns=${[
					["Request"], ["Client"], ["Address"], ["Broker", "number"], ["Queue", "number"],
					["Handler", "number"],
					["Waited", "number"], ["Total", "number"], ["Ago", "number"],
				]}
				rows=${[...data.requests].reverse().map((/** @type {RequestRow} */ one) => [
					html`<button class="link" onClick=${() => pick(one)}>
						<span class=${`swatch ${ink(one.api)}`} aria-hidden="true"></span>${one.api}
						<small> v${one.version}</small></button>`,
					html`<bdi>${one.client_id ?? "–"}</bdi>`,
					one.peer, one.broker_id ?? data.broker_id, duration(one.queue_ms),
					duration(one.handler_ms), duration(one.waited_ms), duration(one.total_ms),
					duration(one.age_ms),
				])}
				empty="There are none."
			/>`} />`;
}

/** @param {{ rest: string[] }} props */
export function Clients({ rest }) {
	const view = rest[0] && rest[0] in VIEWS ? rest[0] : "connections";
	const tabs = Object.keys(VIEWS).map((name) => [name, at("clients", name)]);
	return html`<${Heading} title="Clients and requests" />
		<${Tabs} label="Views of clients" tabs=${tabs} at=${view} />
		${view === "connections" && html`<${Connections} />`}
		${view === "metrics" && html`<${Reports} id=${rest[1]} />`}
		${VIEWS[view] && html`<${Requests} key=${view} kind=${view} />`}`;
}
