// What clients report of themselves (KIP-714), and the subscriptions that ask them to.

import { part } from "../api.js";
import { count, duration, moment } from "../format.js";
import { Figure, Figures, Search, Shown, Table, at, useAsked, usePages } from "../parts.js";
import { html, useState } from "../vendor/preact.js";

/** @param {Record<string, string>} labels @returns {string} */
const text = (labels) =>
	Object.entries(labels)
		.map(([name, value]) => `${name}=${value}`)
		.join(" ");

/** @param {number | null} value @returns {string} */
const figure = (value) =>
	value === null ? "–" : value.toLocaleString("en", { maximumFractionDigits: 3 });

/** @param {any} one a client @returns {any} */
function asked(one) {
	if (one.requested_metrics.length === 0) return html`<span class="muted">nothing</span>`;
	return html`<bdi>${one.requested_metrics.join(", ")}</bdi>
		<small class="muted"> every ${duration(one.push_interval_ms)}</small>`;
}

/** @param {any} one a client @returns {any} */
function state(one) {
	if (one.last_error) return html`<span class="tag">${one.last_error}</span>`;
	return one.terminating ? "ended" : count(one.metrics);
}

/** @param {{ subscriptions: any[] }} props */
function Subscriptions({ subscriptions }) {
	return html`<${Table}
		caption="Subscriptions of the cluster"
		columns=${[["Name"], ["Metrics"], ["Clients"], ["Interval", "number"]]}
		rows=${subscriptions.map((/** @type {any} */ one) => [
			html`<bdi>${one.name}</bdi>`,
			html`<bdi>${one.configs.metrics || "none"}</bdi>`,
			html`<bdi>${one.configs.match || "all"}</bdi>`,
			duration(Number(one.configs["interval.ms"])),
		])}
		empty="There is no subscription: clients report nothing. kafkalite client-metrics makes one."
	/>`;
}

function List() {
	const [search, setSearch] = useState("");
	const { after, pager, restart } = usePages();
	const of = useAsked("/client-metrics", { search, after, limit: 100 });
	const look = (/** @type {string} */ words) => {
		restart();
		setSearch(words);
	};
	return html`<div class="ask"><${Search} label="Search clients" onSearch=${look} /></div>
		<${Shown} of=${of} show=${(data) => html`<p class="whose">
				${count(data.total)} clients asked broker ${data.broker_id} what to report.
			</p>
			<${Subscriptions} subscriptions=${data.subscriptions} />
			<${Table}
				caption="Clients"
				columns=${[
					["Client"], ["Software"], ["Address"], ["Asked for"], ["Reports", "number"],
					["Values", "number"], ["Last request", "number"],
				]}
				rows=${data.clients.map((/** @type {any} */ one) => [
					html`<a href=${at("clients", "metrics", one.instance_id)}>
						<bdi>${one.client_id ?? one.instance_id}</bdi></a>`,
					html`<bdi>${one.software}</bdi> <small class="muted">
						<bdi>${one.software_version}</bdi></small>`,
					one.peer,
					asked(one),
					count(one.pushes),
					state(one),
					`${duration(one.last_request_ms_ago)} ago`,
				])}
				empty="No client fits."
			/>
			${pager(data.next)}`} />`;
}

/** @param {{ id: string }} props */
function Report({ id }) {
	const [search, setSearch] = useState("");
	const { after, pager, restart } = usePages();
	const of = useAsked(`/client-metrics/${part(id)}`, { search, after, limit: 100 });
	const look = (/** @type {string} */ words) => {
		restart();
		setSearch(words);
	};
	return html`<div class="ask"><${Search} label="Search metrics" onSearch=${look} /></div>
		<${Shown} of=${of} show=${(data) => html`<${Figures}>
				<${Figure} name="Client" value=${html`<bdi>${data.client.client_id ?? "–"}</bdi>`} />
				<${Figure} name="Reports" value=${count(data.client.pushes)} />
				<${Figure} name="Last report" value=${moment(data.client.reported_ms)} />
				<${Figure}
					name="Values" value=${count(data.client.metrics)}
					note=${data.client.omitted > 0 && ` ${count(data.client.omitted)} left out`}
				/>
			<//>
			<p class="whose"><bdi>${text(data.labels)}</bdi></p>
			<${Table}
				caption="Values of the last report"
				columns=${[["Metric"], ["Labels"], ["Kind"], ["Value", "number"], ["In all", "number"]]}
				rows=${data.metrics.map((/** @type {any} */ one) => [
					html`<bdi>${one.name}</bdi>`,
					html`<bdi>${text(one.labels)}</bdi>`,
					one.kind,
					figure(one.value),
					figure(one.total),
				])}
				empty="There is no report, or no metric fits."
			/>
			${pager(data.next)}`} />`;
}

/** @param {{ id: string | undefined }} props */
export function Reports({ id }) {
	return id ? html`<${Report} key=${id} id=${id} />` : html`<${List} />`;
}
