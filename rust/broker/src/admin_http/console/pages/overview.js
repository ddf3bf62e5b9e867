// The broker and its cluster at a glance, and in words what is wrong.

import { bytes, count, duration, short } from "../format.js";
import { current, read } from "../live.js";
import { Figure, Figures, Heading, Shown, at } from "../parts.js";
import { html, useEffect, useState } from "../vendor/preact.js";
import { owner, useFigures } from "../whose.js";

/** @param {string} text */
const upper = (text) => text[0].toUpperCase() + text.slice(1);

/** @param {{ alerts: any[] }} props */
function Alerts({ alerts }) {
	if (alerts.length === 0) {
		return html`<p class="fine card"><span aria-hidden="true">✓</span> Nothing is wrong.</p>`;
	}
	return html`<ul class="alerts" aria-label="What is wrong">
		${alerts.map(
			(alert) => html`<li class="trouble"><strong>${alert.what}</strong>
				<p>Cause: ${alert.why}. ${alert.hint}</p></li>`,
		)}
	</ul>`;
}

/** What moves now. */
function Now() {
	const [live, setLive] = useState(current);
	useEffect(() => read(setLive), []);
	const last = live.events.slice(-5);
	if (last.length === 0) return null;
	const mean = (/** @type {(event: LiveEvent) => number} */ of) =>
		last.reduce((sum, event) => sum + of(event), 0) / last.length;
	return html`<h2>Now</h2>
		<${Figures}>
			<${Figure} name="Requests" value=${short(mean((e) => e.requests_per_second))}
				note="a second" />
			<${Figure} name="In" value=${bytes(mean((e) => e.bytes_in_per_second))} note="a second" />
			<${Figure} name="Out" value=${bytes(mean((e) => e.bytes_out_per_second))} note="a second" />
			<${Figure} name="Connections" value=${count(last[last.length - 1].connections)} />
		<//>`;
}

/** @param {any} of */
function Facts(of) {
	const here = of.here;
	const bad = (/** @type {number} */ n) => (n > 0 ? "bad" : "");
	return html`<${Alerts} alerts=${of.alerts} />
		<${Now} />
		<h2>Cluster</h2>
		<${Figures}>
			<${Figure} name="Brokers" value=${count(of.brokers)}
				note=${html`<a href=${at("cluster")}>controller: ${of.controller_id ?? "none"}</a>`} />
			<${Figure} name="Topics" value=${html`<a href=${at("topics")}>${count(of.topics)}</a>`} />
			<${Figure} name="Partitions" value=${count(of.partitions)} />
			<${Figure} name="Behind" value=${count(of.under_replicated)} kind=${bad(of.under_replicated)}
				note="lack an in-sync replica" />
			<${Figure} name="Without leader" value=${count(of.without_leader)}
				kind=${bad(of.without_leader)} />
		<//>
		<h2>${upper(owner(of))}</h2>
		<${Figures}>
			<${Figure} name="Up" value=${duration(of.uptime_ms)}
				note=${`broker ${of.broker_id}, ${of.version}`} />
			<${Figure} name="Replicas" value=${count(here.replicas)}
				note=${`${count(here.leaders)} lead`} />
			<${Figure} name="Offline" value=${count(here.offline)} kind=${bad(here.offline)} />
			<${Figure} name="On disk" value=${bytes(here.bytes)} />
			<${Figure} name="Groups" value=${html`<a href=${at("groups")}>${count(here.groups)}</a>`} />
			<${Figure} name="Records in" value=${count(here.records_in)} note="since it started" />
		<//>`;
}

export function Overview() {
	const of = useFigures("/overview", {}, 2000);
	const whose = of.data &&
		`The cluster as broker ${of.data.broker_id} knows it, and figures of ${owner(of.data)}.`;
	return html`<${Heading} title="Overview" whose=${whose} /> <${Shown} of=${of} show=${Facts} />`;
}
