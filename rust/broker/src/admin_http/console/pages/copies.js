// Test control: snapshots, forks, and leaders that move. Brokers under test only.

import { useCommand } from "../command.js";
import { Trouble, Table, useAsked } from "../parts.js";
import { html, useState } from "../vendor/preact.js";

/** @param {{ name: string, label: string, run: () => any, busy: boolean, kind?: string }} props */
function Act({ name, label, run, busy, kind = "" }) {
	return html`<button class=${kind} aria-label=${label} disabled=${busy} onClick=${run}>
		${name}
	</button>`;
}

/** Snapshots of the broker, and forks that run. */
export function Copies() {
	const snapshots = useAsked("/snapshots", {}, 2000);
	const forks = useAsked("/forks", {}, 2000);
	const command = useCommand(() => [snapshots, forks].forEach((of) => of.reload()));
	const { busy, run } = command;
	const fork = (/** @type {object} */ of) => () => run("POST", "/forks", of);
	if (snapshots.refusal) {
		return html`<section class="card">
			<h2>Snapshots and forks</h2>
			<p class="muted">${snapshots.refusal.what}: ${snapshots.refusal.why}.</p>
		</section>`;
	}
	return html`<section class="card">
		<h2>Snapshots and forks</h2>
		<p class="muted">
			A fork is a second broker with the topics, records, offsets and groups of a snapshot. To go
			back to a snapshot, have clients use a fork of it.
		</p>
		<${Trouble} refusal=${command.refusal} />
		<p class="ask">
			<button disabled=${busy} onClick=${() => run("POST", "/snapshots", {})}>
				Take a snapshot
			</button>
			<button disabled=${busy} onClick=${fork({})}>Fork the present</button>
		</p>
		<${Table}
			caption="Snapshots"
			columns=${[["Snapshot"], [""]]}
			rows=${(snapshots.data?.snapshots ?? []).map((/** @type {any} */ { id }) => [
				id,
				html`<${Act} name="Fork" label=${`Fork snapshot ${id}`} busy=${busy}
						run=${fork({ snapshot: id })} />${" "}
					<${Act} name="Delete" label=${`Delete snapshot ${id}`} busy=${busy} kind="danger"
						run=${() => run("DELETE", `/snapshots/${id}`)} />`,
			])}
			empty="There are no snapshots."
		/>
		<${Table}
			caption="Forks"
			columns=${[["Fork"], ["Address"], ["Console"], [""]]}
			rows=${(forks.data?.forks ?? []).map((/** @type {any} */ one) => [
				one.id,
				html`<code><bdi>${one.bootstrap_servers}</bdi></code>`,
				one.admin_url ? html`<a href=${`${one.admin_url}/console`}>${one.admin_url}</a>` : "–",
				html`<${Act} name="Close" label=${`Close fork ${one.id}`} busy=${busy} kind="danger"
					run=${() => run("DELETE", `/forks/${one.id}`)} />`,
			])}
			empty="There are no forks."
		/>
	</section>`;
}

/** Leaders and coordinators move, as their clients see it. @param {{ onDone: () => void }} props */
export function Moves({ onDone }) {
	const command = useCommand(onDone);
	const [said, setSaid] = useState("");
	const submit = (/** @type {string} */ path) => async (/** @type {any} */ event) => {
		event.preventDefault();
		const body = /** @type {Record<string, string | number>} */ ({});
		for (const [name, value] of new FormData(event.target)) {
			const text = value.toString().trim();
			if (text) body[name] = name === "partition" || name === "to" ? Number(text) : text;
		}
		const answer = await command.run("POST", path, body);
		const words = (/** @type {any} */ one) =>
			`${one.topic}-${one.partition}: broker ${one.from} → ${one.to}, epoch ${one.leader_epoch}`;
		setSaid(answer ? answer.moved.map(words).join("; ") || "There was nothing to move." : "");
	};
	const to = () => html`<label>
		To broker <input name="to" type="number" min="0" placeholder="the next in sync" />
	</label>`;
	return html`<section class="card">
		<h2>Move leaders and coordinators</h2>
		<p class="muted">
			A leader without another replica leads on in a higher epoch, and its clients get the errors
			that they would have met.
		</p>
		<${Trouble} refusal=${command.refusal} />
		<form class="ask" aria-label="Move a leader" onSubmit=${submit("/leaders/move")}>
			<label>Topic <input name="topic" required autocomplete="off" spellcheck=${false} /></label>
			<label>Partition <input name="partition" type="number" min="0" value="0" required /></label>
			${to()} <button disabled=${command.busy}>Move the leader</button>
		</form>
		<form class="ask" aria-label="Move a coordinator" onSubmit=${submit("/coordinators/move")}>
			<label>Group <input name="group" required autocomplete="off" spellcheck=${false} /></label>
			${to()} <button disabled=${command.busy}>Move the coordinator</button>
		</form>
		<form onSubmit=${submit("/leaders/shuffle")}>
			<button disabled=${command.busy}>Shuffle all leaders</button>
		</form>
		${said && html`<p role="status"><bdi>${said}</bdi></p>`}
	</section>`;
}
