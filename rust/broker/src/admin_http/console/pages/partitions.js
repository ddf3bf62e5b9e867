// The partitions of a topic, its groups, and the segments of a log.

import { AddPartitions, useWritable } from "../changes.js";
import { bytes, count, duration, moment, seconds } from "../format.js";
import { Shown, Table, at, useAsked, usePages } from "../parts.js";
import { html, useState } from "../vendor/preact.js";
import { owner, useFigures } from "../whose.js";

/** @param {any} one @returns {any[]} */
function row(one) {
	const here = one.here;
	const lacks = one.isr.length < one.replicas.length;
	return [
		one.partition,
		one.leader ?? html`<b class="bad">none</b>`,
		one.replicas.join(", "),
		html`<span class=${lacks ? "bad" : ""}>${one.isr.join(", ")}</span>`,
		count(here?.log_start_offset),
		count(here?.high_watermark),
		count(here?.log_end_offset),
		bytes(here?.bytes),
	];
}

/** @param {{ path: string }} props */
export function Partitions({ path }) {
	const { after, pager } = usePages();
	const of = useFigures(path, { after, limit: 100 });
	const writable = useWritable();
	return html`<${Shown} of=${of} show=${(data) => html`<p class="whose">
			Leaders and replicas are those of the cluster; offsets and sizes those of the
			${data.figures_of ? " leaders" : ` replicas on broker ${data.broker_id}`}.
		</p>
		<${Table}
			caption="Partitions"
			columns=${[
				["Partition", "number"], ["Leader", "number"], ["Replicas"], ["In sync"],
				["Log start", "number"], ["High watermark", "number"], ["Log end", "number"],
				["Size", "number"],
			]}
			rows=${data.partitions.map(row)}
		/>
		${pager(data.next)}
		${writable &&
		!data.topic.internal &&
		html`<${AddPartitions} path=${path} partitions=${data.topic.partitions} onDone=${of.reload} />`}
	`} />`;
}

/**
 * Groups that committed offsets of a topic. The API lists groups alone, so the page looks into 50
 * of them at a time.
 * @param {{ name: string }} props
 */
export function GroupsOfTopic({ name }) {
	const { after, pager } = usePages();
	const of = useFigures("/groups", { after, limit: 50 }, 5000);
	return html`<${Shown} of=${of} show=${(data) => html`<p class="whose">
			Groups coordinated by ${owner(data)}.
			${(after || data.next) && " 50 are looked into at a time, of all topics."}
		</p>
		${data.groups.length === 0 && html`<p class="empty">There are no groups.</p>`}
		${data.groups.map(
			(/** @type {any} */ group) =>
				html`<${GroupOfTopic} key=${group.id} id=${group.id} topic=${name} />`,
		)}
		${pager(data.next)}`} />`;
}

/** @param {{ id: string, topic: string }} props */
function GroupOfTopic({ id, topic }) {
	const of = useFigures(`/groups/${encodeURIComponent(id)}`, { limit: 1000 }, 5000);
	const rows = (of.data?.offsets ?? []).filter((/** @type {any} */ row) => row.topic === topic);
	if (rows.length === 0) return null;
	return html`<section class="card">
		<h2><a href=${at("groups", id)}><bdi>${id}</bdi></a></h2>
		<${Table}
			caption="Offsets of the group in this topic"
			columns=${[
				["Partition", "number"], ["Committed", "number"], ["High watermark", "number"],
				["Lag", "number"], ["Lag in time", "number"],
			]}
			rows=${rows.map((/** @type {any} */ row) => [
				row.partition, count(row.committed_offset), count(row.high_watermark),
				count(row.lag_records), seconds(row.lag_seconds),
			])}
		/>
	</section>`;
}

/** @param {{ path: string }} props */
export function Segments({ path }) {
	const [partition, setPartition] = useState(0);
	const { after, pager, restart } = usePages();
	const of = useAsked(`${path}/partitions/${partition}/segments`, { after, limit: 100 }, 5000);
	const change = (/** @type {any} */ event) => {
		restart();
		setPartition(Number(event.target.value) || 0);
	};
	return html`<form class="ask" onSubmit=${(event) => event.preventDefault()}>
			<label>Partition
				<input type="number" min="0" value=${partition} onChange=${change} />
			</label>
		</form>
		<${Shown} of=${of} show=${(data) => html`<p class="whose">
				${count(data.total)} segments of the replica on broker ${data.broker_id}.
			</p>
			<${Table}
				caption="Segments, the oldest first"
				columns=${[
					["From", "number"], ["To", "number"], ["Size", "number"], ["Index entries", "number"],
					["Newest record"], ["Newest record's age", "number"], ["State"],
				]}
				rows=${data.segments.map((/** @type {any} */ one) => [
					count(one.base_offset), count(one.end_offset), bytes(one.bytes),
					count(one.offset_index_entries), moment(one.newest_timestamp_ms),
					one.newest_timestamp_ms !== null ? duration(Date.now() - one.newest_timestamp_ms) : "–",
					one.active ? html`<span class="tag">active</span>` : "sealed",
				])}
			/>
			${pager(data.next)}`} />`;
}
