// One broker: its configuration, its threads and its log.

import { count, moment, percent, short } from "../format.js";
import { current, ofOwn, read } from "../live.js";
import { Heading, Search, Shown, Table, Tabs, at, useAsked } from "../parts.js";
import { STAGES } from "../plane/layout.js";
import { html, useEffect, useState } from "../vendor/preact.js";
import { Keys } from "./keys.js";

const VIEWS = ["configuration", "threads", "log"];
const LEVELS = ["error", "warn", "info", "debug", "trace"];

function Threads() {
	const [live, setLive] = useState(current);
	useEffect(() => {
		ofOwn(true);
		const stop = read(setLive);
		return () => {
			stop();
			ofOwn(false);
		};
	}, []);
	const event = live.events[live.events.length - 1];
	const stages = event?.stages.filter((stage) => stage.threads !== null) ?? [];
	return html`<p class="whose">
			${event && `Threads of broker ${event.broker_id}, in the last 0.2 s.`}
		</p>
		<${Table}
			caption="Threads of the data plane"
			columns=${[["Threads"], ["How many", "number"], ["Busy", "number"], ["Requests/s", "number"]]}
			rows=${stages.map((stage) => [
				STAGES[stage.name].title, count(stage.threads), percent(stage.busy ?? 0),
				short(stage.per_second),
			])}
		/>`;
}

function Log() {
	const [search, setSearch] = useState("");
	const [level, setLevel] = useState("info");
	const change = (/** @type {any} */ event) => setLevel(event.target.value);
	const of = useAsked("/log", { search, level, limit: 300 }, 2000);
	return html`<div class="ask">
			<${Search} label="Search lines" onSearch=${setSearch} />
			<label>Level
				<select value=${level} onChange=${change}>
					${LEVELS.map((name) => html`<option value=${name}>${name}</option>`)}
				</select>
			</label>
		</div>
		<${Shown} of=${of} show=${(data) => html`<p class="whose">
				The last lines of the process of broker ${data.broker_id}, the newest first.
				${!data.kept && " The program that embeds the broker has a log of its own."}
			</p>
			<${Table}
				caption="Lines of the log"
				columns=${[["Time"], ["Level"], ["Line"]]}
				rows=${[...data.lines].reverse().map((/** @type {any} */ line) => [
					html`<time class="nowrap">${moment(line.timestamp_ms)}</time>`,
					html`<span class=${`tag is-${line.level.toLowerCase()}`}>${line.level}</span>`,
					html`<code><bdi>${line.message}</bdi></code>
						<small class="muted">${line.target}</small>`,
				])}
				empty="There are no lines."
			/>`} />`;
}

/** @param {{ rest: string[], overview: any }} props */
export function Broker({ rest, overview }) {
	const view = VIEWS.includes(rest[0]) ? rest[0] : VIEWS[0];
	const tabs = VIEWS.map((name) => [name, at("broker", name)]);
	const title = overview ? `Broker ${overview.broker_id}` : "Broker";
	return html`<${Heading} title=${title} />
		<${Tabs} label="Views of the broker" tabs=${tabs} at=${view} />
		${view === "configuration" && html`<${Keys} path="" />`}
		${view === "threads" && html`<${Threads} />`} ${view === "log" && html`<${Log} />`}`;
}
