// The brokers, and the quorum that decides about metadata.

import { count, duration, percent } from "../format.js";
import { Figure, Figures, Heading, Shown, Table, at, useAsked, usePages } from "../parts.js";
import { html } from "../vendor/preact.js";

/** @param {any} broker @param {any} of @returns {any[]} */
function row(broker, of) {
	const isHere = broker.id === of.broker_id;
	const isController = broker.id === of.controller_id;
	return [
		html`${broker.id} ${isHere && html`<span class="tag">this one</span>`}
			${isController && html`<span class="tag">controller</span>`}`,
		html`<bdi>${broker.host}:${broker.port}</bdi>`,
		html`<bdi>${broker.rack ?? "–"}</bdi>`,
		broker.fenced ? html`<b class="bad">fenced</b>` : "serves",
		count(broker.leaders),
		html`${count(broker.in_sync)} of ${count(broker.replicas)}`,
	];
}

/** @param {{ members: any[], caption: string, leader: number | null }} props */
function Members({ members, caption, leader }) {
	return html`<${Table}
		caption=${caption}
		columns=${[["Broker"], ["Role"], ["Log end", "number"], ["Answered", "number"]]}
		rows=${members.map((one) => [
			one.broker_id,
			one.broker_id === leader ? html`<span class="tag">leader</span>` : "follows",
			count(one.log_end_offset),
			one.answered_ms_ago === null ? "–" : `${duration(one.answered_ms_ago)} ago`,
		])}
		empty="None."
	/>`;
}

/** How far a replica is, as its leader knows. @param {any} one @param {number} id */
function far({ here }, id) {
	if (!here) return "its leader does not answer";
	const { in_sync, records_behind } =
		here.followers.find((/** @type {any} */ follower) => follower.broker_id === id) ?? {};
	if (in_sync) return "in sync";
	if (records_behind === null || records_behind === undefined) return "it does not fetch yet";
	const all = here.log_end_offset - here.log_start_offset;
	const has = all > 0 ? Math.max(all - records_behind, 0) / all : 1;
	return `${percent(has)}, ${count(records_behind)} records behind`;
}

/** @param {any} one @returns {number[]} */
function lacking({ replicas, isr, adding_replicas }) {
	const found = new Set([...isr, ...adding_replicas]);
	return replicas.filter((/** @type {number} */ id) => !found.has(id));
}

/**
 * Partitions that move, or that lack a replica, a page of them.
 * @param {{ state: string, title: string, name: string, empty: string,
 *   ids: (one: any) => number[] }} props `ids` are the replicas that others wait for.
 */
function Progress({ state, title, name, empty, ids }) {
	const { after, pager } = usePages();
	const of = useAsked("/cluster/partitions", { state, after, limit: 50, broker: "all" }, 2000);
	// The section of moves says for both which brokers do not answer.
	const quiet = { ...of, data: of.data && { ...of.data, figures_of: [] } };
	return html`<section class="card">
		<h2>${title}</h2>
		<${Shown} of=${state === "moving" ? of : quiet} show=${(data) => html`<${Table}
				caption=${title}
				columns=${[["Partition"], ["Leader"], ["Replicas"], ["In sync"], [name], ["Removes"]]}
				rows=${data.partitions.map((/** @type {any} */ one) => [
					html`<a href=${at("topics", one.topic, "partitions")}><bdi>${one.topic}</bdi></a>
						-${one.partition}`,
					one.leader ?? html`<b class="bad">none</b>`,
					one.replicas.join(", "),
					one.isr.join(", "),
					ids(one).map((id) => html`<div>broker ${id}: ${far(one, id)}</div>`),
					one.removing_replicas.join(", ") || "–",
				])}
				empty=${empty}
			/>
			${pager(data.next)}`} />
	</section>`;
}

/** @param {any} of */
function Facts(of) {
	const quorum = of.quorum;
	return html`<${Table}
			caption="Brokers"
			columns=${[
				["Broker"], ["Address"], ["Rack"], ["State"], ["Leads", "number"], ["In sync", "number"],
			]}
			rows=${of.brokers.map((/** @type {any} */ broker) => row(broker, of))}
		/>
		<${Progress} state="moving" title="Reassignments" name="Adds"
			ids=${(one) => one.adding_replicas}
			empty="No partition moves to other brokers." />
		<${Progress} state="under_replicated" title="Not in sync" name="Lacks" ids=${lacking}
			empty="Every partition has its replicas in sync." />
		<section class="card">
			<h2>Controller quorum</h2>
			<${Figures}>
				<${Figure} name="Leader" value=${quorum.leader_id ?? "none"} />
				<${Figure} name="Leader epoch" value=${count(quorum.leader_epoch)} />
				<${Figure} name="High watermark" value=${count(quorum.high_watermark)} />
				<${Figure} name="This broker has" value=${count(of.metadata_offset)}
					note="the last record" />
			<//>
			<${Members} caption="Voters" members=${quorum.voters} leader=${quorum.leader_id} />
			${quorum.observers.length > 0 &&
			html`<${Members}
				caption="Observers"
				members=${quorum.observers}
				leader=${quorum.leader_id}
			/>`}
		</section>`;
}

export function Cluster() {
	const of = useAsked("/cluster", {}, 2000);
	const whose = of.data &&
		`The cluster ${of.data.cluster_id} as broker ${of.data.broker_id} knows it.`;
	return html`<${Heading} title="Cluster" whose=${whose} /> <${Shown} of=${of} show=${Facts} />`;
}
