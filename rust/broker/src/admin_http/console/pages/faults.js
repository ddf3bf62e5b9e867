// Test control: stages that stand still, faults, moves, copies, and the broker's clock.

import { part } from "../api.js";
import { useCommand } from "../command.js";
import { count } from "../format.js";
import { Heading, Shown, Table, Trouble, useAsked } from "../parts.js";
import { STALLS, Stall } from "../plane/picture.js";
import { html, useState } from "../vendor/preact.js";
import { Copies, Moves } from "./copies.js";

const CALLS = ["client_id", "topic", "partition", "group"];

/** The members that each kind of fault takes beside when it strikes; `+` marks what it needs. */
const KINDS = /** @type {Record<string, string[]>} */ ({
	error: ["+api", "+error", "side", ...CALLS],
	delay: ["+ms", "api", "side", ...CALLS],
	disconnect: ["api", "side", ...CALLS],
	drop_response: ["api", ...CALLS],
	blackhole: ["api", ...CALLS],
	throttle: ["+ms", "api", ...CALLS],
	corrupt: ["client_id", "topic", "partition"],
	disk: ["+disk", "ms", "operation", "topic", "partition"],
	versions: ["+api", "min_version", "max_version", "client_id"],
	follower: ["+broker", "client_id", "topic", "partition"],
	leader: ["+broker", "leader_epoch", "client_id", "topic", "partition"],
});

const WHEN = ["times", "on_call", "probability", "seed"];

/** The label of a member, and its choices, its hint, or its hint and the least number. */
const FIELDS = /** @type {Record<string, [string, string | string[], number?]>} */ ({
	api: ["API", "Produce"],
	error: ["Error", "NOT_LEADER_OR_FOLLOWER"],
	disk: ["Disk", ["full", "error", "slow"]],
	ms: ["Milliseconds", "500", 0],
	operation: ["Operation", ["", "write", "sync", "read"]],
	side: ["Side", ["", "before", "after"]],
	client_id: ["Client id", "every client"],
	topic: ["Topic", "every topic"],
	partition: ["Partition", "every one", 0],
	group: ["Group", "every group"],
	min_version: ["Least version", "the broker's own", 0],
	max_version: ["Newest version", "the broker's own", 0],
	broker: ["Broker", "2", 0],
	leader_epoch: ["Leader epoch", "the true one", 0],
	times: ["Times", "always", 1],
	on_call: ["From call", "1", 1],
	probability: ["Probability", "1", 0],
	seed: ["Seed", "any", 0],
});

const MOVES = /** @type {[string, number][]} */ ([
	["1 minute", 60_000],
	["1 hour", 3_600_000],
	["1 day", 86_400_000],
	["8 days", 691_200_000],
]);

/** @param {{ faults: any[], command: any }} props */
function Stages({ faults, command }) {
	return html`<section class="card">
		<h2>Stall a stage</h2>
		<p class="muted">
			Requests gather before a stage that stands still: the data plane shows the back-pressure.
		</p>
		<ul class="stalls">
			${STALLS.map(
				([stage, name, means]) => html`<li>
					<${Stall} stage=${stage} faults=${faults} command=${command}
						show=${(isStalled) => ({ "aria-pressed": isStalled, children: name })} />
					<span class="muted">${means}</span>
				</li>`,
			)}
		</ul>
	</section>`;
}

/** @param {any} form @returns {Record<string, string | number>} */
function membersOf(form) {
	const members = /** @type {Record<string, string | number>} */ ({});
	for (const [name, value] of new FormData(form)) {
		const text = value.toString().trim();
		if (text) members[name] = FIELDS[name]?.[2] === undefined ? text : Number(text);
	}
	return members;
}

/** @param {{ member: string }} props */
function Member({ member }) {
	const name = member.replace("+", "");
	const [label, hint, min] = FIELDS[name];
	return html`<label>
		${label}
		${typeof hint === "string"
			? html`<input name=${name} type=${min === undefined ? "text" : "number"} min=${min} step="any"
					placeholder=${hint} autocomplete="off" spellcheck=${false} required=${name !== member} />`
			: html`<select name=${name}>
					${hint.map((one) => html`<option value=${one}>${one || "the usual"}</option>`)}
				</select>`}
	</label>`;
}

/** @param {{ command: any }} props */
function Add({ command }) {
	const [kind, setKind] = useState("error");
	const submit = (/** @type {any} */ event) => {
		event.preventDefault();
		command.run("POST", "/faults", membersOf(event.target));
	};
	return html`<section class="card">
		<h2>Add a fault</h2>
		<form class="ask" onSubmit=${submit}>
			<label>
				Kind
				<select name="kind" value=${kind} onChange=${(event) =>
					setKind(event.target.value)}>
					${Object.keys(KINDS).map(
						(name) => html`<option value=${name}>${name.replace("_", " ")}</option>`,
					)}
				</select>
			</label>
			${[...KINDS[kind], ...WHEN].map((one) => html`<${Member} key=${one} member=${one} />`)}
			<button class="main" disabled=${command.busy}>Add the fault</button>
		</form>
	</section>`;
}

/** What a fault is restricted to. @param {any} fault */
function restrictions(fault) {
	const shown = new Set(["id", "kind", "seen", "fired", "spent"]);
	const rest = Object.entries(fault).filter(([name, value]) => !shown.has(name) && value !== null);
	return rest.map(([name, value]) => html`<code><bdi>${`${name}=${value}`}</bdi></code> `);
}

/** @param {{ faults: any[], command: any }} props */
function Faults({ faults, command }) {
	return html`<${Table}
			caption="Faults in force"
			columns=${[["Kind"], ["What and when"], ["Seen", "number"], ["Struck", "number"], [""]]}
			rows=${faults.map((fault) => [
				html`${fault.kind.replace("_", " ")}
					${fault.spent && html`<span class="tag">spent</span>`}`,
				restrictions(fault),
				count(fault.seen),
				count(fault.fired),
				html`<button
					class="danger"
					aria-label=${`Remove fault ${fault.id}`}
					disabled=${command.busy}
					onClick=${() => command.run("DELETE", `/faults/${part(String(fault.id))}`)}
				>
					Remove
				</button>`,
			])}
			empty="There are no faults."
		/>
		${faults.length > 0 &&
		html`<p>
			<button disabled=${command.busy} onClick=${() => command.run("DELETE", "/faults")}>
				Remove all faults
			</button>
		</p>`}`;
}

/** The broker's clock, which goes forward only. */
function Clock() {
	const of = useAsked("/clock", {}, 1000);
	const command = useCommand(of.reload);
	const move = (/** @type {number} */ ms) => () =>
		command.run("POST", "/clock/advance", { ms, monotonic: false });
	return html`<section class="card">
		<h2>Clock</h2>
		<${Trouble} refusal=${command.refusal} />
		<${Shown} of=${of} show=${(clock) => html`<p>
				The broker's time is
				<b>${" "}${new Date(clock.now_ms).toISOString().replace("T", " ")}</b>. A move forward
				deletes, compacts and expires what is due then, before it ends.
			</p>`} />
		<p class="ask">
			${MOVES.map(
				([name, ms]) =>
					html`<button disabled=${command.busy} onClick=${move(ms)}>Forward ${name}</button>`,
			)}
		</p>
	</section>`;
}

/** The page. */
export function FaultsPage() {
	const of = useAsked("/faults", {}, 1000);
	const command = useCommand(of.reload);
	return html`<${Heading} title="Faults" whose="This broker fails on purpose." />
		<${Trouble} refusal=${command.refusal} />
		<${Shown} of=${of} show=${(data) => html`<${Stages}
				faults=${data.faults}
				command=${command}
			/>
			<${Add} command=${command} />
			<${Faults} faults=${data.faults} command=${command} />
			<${Moves} onDone=${of.reload} /> <${Copies} /> <${Clock} />`} />`;
}
