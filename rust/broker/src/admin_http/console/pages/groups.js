// Consumer groups: members, offsets, and lag over time.

import { part } from "../api.js";
import { DeleteGroup, ResetOffsets, useWritable } from "../changes.js";
import { Chart } from "../chart.js";
import { count, moment, seconds, short } from "../format.js";
import {
	Figure, Figures, Heading, Search, Shown, Table, at, usePages,
} from "../parts.js";
import { html, useEffect, useState } from "../vendor/preact.js";
import { owner, useFigures } from "../whose.js";

/** Points of the curve of a lag: ten minutes. */
const KEPT = 300;

function List() {
	const [search, setSearch] = useState("");
	const { after, pager, restart } = usePages();
	const of = useFigures("/groups", { search, after, limit: 50 });
	const look = (/** @type {string} */ text) => {
		restart();
		setSearch(text);
	};
	const whose = of.data
		? `${count(of.data.matched)} of ${count(of.data.total)} groups coordinated by ` +
			`${owner(of.data)}.${of.data.loading ? " Some are still being loaded." : ""}`
		: null;
	return html`<${Heading} title="Groups" whose=${whose}>
			<${Search} label="Search groups" onSearch=${look} />
		<//>
		<${Shown} of=${of} show=${(data) => html`<${Table}
				caption="Groups"
				columns=${[
					["Group"], ["State"], ["Members", "number"], ["Partitions", "number"], ["Lag", "number"],
				]}
				rows=${data.groups.map((/** @type {any} */ group) => [
					html`<a href=${at("groups", group.id)}><bdi>${group.id}</bdi></a>`,
					html`<span class=${`tag is-${group.state.toLowerCase()}`}>${group.state}</span>`,
					count(group.members),
					count(group.committed_partitions),
					lag(group),
				])}
				empty=${search ? "No group has this in its name." : "There are no groups yet."}
			/>
			${pager(data.next)}`} />`;
}

/** @param {any} group @returns {any} */
function lag(group) {
	const elsewhere = group.partitions_elsewhere;
	return html`${count(group.lag_records)}
		${elsewhere > 0 && html`<small class="muted"> without ${elsewhere} on other brokers</small>`}`;
}

/** The lag since the page is open. @param {{ records: number, at: any }} props */
function LagOverTime({ records, at }) {
	const [points, setPoints] = useState(/** @type {[number, number][]} */ ([]));
	useEffect(() => {
		/** @type {[number, number]} */
		const point = [Date.now() / 1000, records];
		setPoints((all) => [...all, point].slice(-KEPT));
	}, [at]);
	/** @type {Columns} */
	const columns = [points.map(([time]) => time), points.map(([, lag]) => lag)];
	const names = ["lag"];
	return html`<${Chart} title="Lag in records" names=${names} columns=${columns} show=${short} />`;
}

/** @param {any} group */
function Members({ group }) {
	return html`<section class="card">
		<h2>Members</h2>
		<${Table}
			caption="Members and their partitions"
			columns=${[["Client"], ["Host"], ["Member"], ["Partitions"]]}
			rows=${group.members.map((/** @type {any} */ member) => [
				html`<bdi>${member.client_id}</bdi>`,
				html`<bdi>${member.client_host}</bdi>`,
				html`<small><bdi>${member.instance_id ?? member.id}</bdi></small>`,
				html`${member.assigned.slice(0, 20).map(
					(/** @type {any} */ of) =>
						html`<span class="tag"><bdi>${of.topic}</bdi>-${of.partition}</span> `,
				)}${member.assigned_count > 20 && ` and ${member.assigned_count - 20} more`}`,
			])}
			empty="The group has no members."
		/>
	</section>`;
}

/** @param {{ id: string }} props */
function Group({ id }) {
	const { after, pager } = usePages();
	const of = useFigures(`/groups/${part(id)}`, { after, limit: 100 }, 2000);
	const writable = useWritable();
	const coordinator = of.data?.coordinator_id ?? of.data?.broker_id;
	const whose = of.data && `As broker ${coordinator} knows it, which coordinates the group.`;
	return html`<p class="crumbs"><a href=${at("groups")}>Groups</a></p>
		<${Heading} title=${id} whose=${whose} />
		<${Shown} of=${of} show=${(group) => html`<${Figures}>
				<${Figure} name="State" value=${group.state} note=${group.protocol} />
				<${Figure} name="Members" value=${count(group.member_count)} />
				<${Figure} name="Lag" value=${lag(group)} note="records" />
			<//>
			<${LagOverTime} records=${group.lag_records} at=${group} />
			<${Members} group=${group} />
			<section class="card">
				<h2>Offsets</h2>
				<${Table}
					caption="Committed offsets"
					columns=${[
						["Topic"], ["Partition", "number"], ["Committed", "number"],
						["High watermark", "number"], ["Lag", "number"], ["Lag in time", "number"],
						["Committed at"],
					]}
					rows=${group.offsets.map((/** @type {any} */ row) => [
						html`<a href=${at("topics", row.topic)}><bdi>${row.topic}</bdi></a>`,
						row.partition, count(row.committed_offset), count(row.high_watermark),
						count(row.lag_records), seconds(row.lag_seconds), moment(row.committed_ms),
					])}
					empty="The group has committed no offset."
				/>
				${pager(group.next)}
			</section>
			${writable &&
			html`<${ResetOffsets} id=${id} onDone=${of.reload} />
				<${DeleteGroup} id=${id} />`}`} />`;
}

/** @param {{ rest: string[] }} props */
export function Groups({ rest }) {
	return rest[0] ? html`<${Group} key=${rest[0]} id=${rest[0]} />` : html`<${List} />`;
}
