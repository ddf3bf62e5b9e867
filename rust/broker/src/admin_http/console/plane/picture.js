// The picture of the data plane: a box for each stage, drawn again with each event.

import { bytes, count, duration, percent, short } from "../format.js";
import { html } from "../vendor/preact.js";
import { STAGES } from "./layout.js";

/** Events of the little curve in a box. */
const CURVE = 50;

/** The colour of a busy share. @param {number} share @returns {string} */
function heat(share) {
	if (share < 0.6) return "calm";
	return share < 0.85 ? "warm" : "hot";
}

/**
 * The main figure of a stage and its unit.
 * @param {string} name @param {Stage | undefined} stage @param {LiveEvent} event
 * @param {any} cluster
 * @returns {[string, string]}
 */
function mainFigure(name, stage, event, cluster) {
	switch (name) {
		case "socket":
			return [count(event.connections), event.connections === 1 ? "connection" : "connections"];
		case "network_threads":
			return [short(stage?.per_second ?? 0), "requests/s"];
		case "io_threads":
			return [short(stage?.per_second ?? 0), "handled/s"];
		case "commit_log":
			return [short(stage?.per_second ?? 0), "appends/s"];
		case "response_send":
			return [`${bytes(event.bytes_out_per_second)}/s`, ""];
		case "replication":
			return replicas(cluster);
		case "request_queue":
		case "response_queues":
			return [count(stage?.depth), "queued"];
		default:
			return [count(stage?.depth), "waiting"];
	}
}

/** @param {any} cluster @returns {[string, string]} */
function replicas(cluster) {
	if (!cluster) return ["–", ""];
	if (cluster.brokers === 1) return ["1 broker", "no followers"];
	const behind = cluster.under_replicated;
	return [`${cluster.brokers} brokers`, behind ? `${count(behind)} behind` : "all in sync"];
}

/**
 * What a box says below its figure.
 * @param {string} name @param {Stage | undefined} stage @param {LiveEvent} event
 * @param {any} cluster @returns {string[]}
 */
function small(name, stage, event, cluster) {
	if (name === "socket") return [`${bytes(event.bytes_in_per_second)}/s in`];
	if (name === "replication" && cluster) {
		const partitions = `${count(cluster.partitions)} partitions`;
		const far = furthest(cluster).map(
			(one) => `broker ${one.broker_id}: ${count(one.records_behind)} records behind`,
		);
		return [`${partitions}, ${count(cluster.here.leaders)} led here`, ...far];
	}
	if (name === "commit_log" && cluster) {
		return [waits(stage), `${bytes(cluster.here.bytes)} in ${count(cluster.here.replicas)} logs`];
	}
	const lines = [waits(stage)];
	if (name === "response_send" && event.zero_copy_share !== null) {
		lines.push(`${percent(event.zero_copy_share)} zero-copy`);
	}
	return lines;
}

/** The followers by broker, those that lack most first. @param {any} cluster @returns {any[]} */
export function furthest(cluster) {
	const followers = [...(cluster?.replication?.followers ?? [])];
	return followers.sort((one, other) => other.records_behind - one.records_behind);
}

/** Where the logs end, in words. @param {any} cluster @returns {string[]} */
export function ends(cluster) {
	const of = cluster?.replication;
	if (!of) return [];
	return [`high watermark ${count(of.high_watermark)}`, `log end ${count(of.log_end_offset)}`];
}

/** @param {Stage | undefined} stage @returns {string} */
function waits(stage) {
	if (!stage || stage.p50_ms === null) return "idle";
	return `p50 ${duration(stage.p50_ms)} · p99 ${duration(stage.p99_ms)}`;
}

/**
 * The rate of a stage over the last events.
 * @param {number[]} rates @param {any} box @returns {string}
 */
function curve(rates, box) {
	const top = Math.max(...rates, 1e-9);
	const step = box.w / (CURVE - 1);
	const from = CURVE - rates.length;
	const points = rates.map((rate, i) => {
		const y = box.y + box.h - 1 - (rate / top) * 26;
		return `${(box.x + (from + i) * step).toFixed(1)} ${y.toFixed(1)}`;
	});
	const floor = box.y + box.h - 1;
	const first = (box.x + from * step).toFixed(1);
	return `M${first} ${floor}L${points.join("L")}L${box.x + box.w} ${floor}Z`;
}

/** @param {{ name: string, box: any, live: LiveEvent[], cluster: any }} props */
function StageBox({ name, box, live, cluster }) {
	const event = live[live.length - 1];
	const stage = event.stages.find((stage) => stage.name === name);
	const rates = live
		.slice(-CURVE)
		.map((past) => past.stages.find((stage) => stage.name === name)?.per_second ?? 0);
	const [value, unit] = mainFigure(name, stage, event, cluster);
	const { x, y, w, h } = box;
	const busy = stage?.busy ?? null;
	const isBusy = (stage?.depth ?? 0) > 0 || (stage?.per_second ?? 0) > 0;
	// As many as the box holds.
	const lines = small(name, stage, event, cluster).slice(0, (box.h - 76) / 15);
	const lanes = name === "request_queue" ? (stage?.parts ?? []).slice(0, 3) : [];
	return html`<g class=${`stage ${isBusy ? "" : "is-idle"}`}>
		<title>${STAGES[name].says}</title>
		<rect class="box" x=${x} y=${y} width=${w} height=${h} rx="12" />
		${rates.length > 1 && html`<path class="curve" d=${curve(rates, box)} />`}
		${name !== "replication" &&
		html`<path class="track" d=${`M${x + 8} ${y + h - 15}H${x + w - 8}`} />`}
		<text class="name" x=${x + 14} y=${y + 24}>${STAGES[name].title}</text>
		${stage?.threads &&
		html`<text class="threads" x=${x + w - 14} y=${y + 24}>×${stage.threads}</text>`}
		<text class="value" x=${x + 14} y=${y + 56}>
			${value}<tspan class="unit" dx="6">${unit}</tspan>
		</text>
		${lines.map(
			(line, i) => html`<text class="small" x=${x + 14} y=${y + 76 + i * 15}>${line}</text>`,
		)}
		${busy !== null && html`<${Meter} box=${box} busy=${busy} />`}
		${lanes.map((lane, i) => html`<${Lane} x=${x + 14 + i * 50} y=${y + h - 52} lane=${lane} />`)}
	</g>`;
}

/** @param {{ box: any, busy: number }} props */
function Meter({ box, busy }) {
	const width = box.w - 82;
	const y = box.y + box.h - 40;
	return html`<g class="meter">
		<rect class="rail" x=${box.x + 14} y=${y} width=${width} height="6" rx="3" />
		<rect
			class=${heat(busy)}
			x=${box.x + 14}
			y=${y}
			width=${Math.max(width * busy, busy > 0.005 ? 4 : 0)}
			height="6"
			rx="3"
		/>
		<text class="small" x=${box.x + box.w - 14} y=${y + 7} text-anchor="end">
			${percent(busy)} busy
		</text>
	</g>`;
}

/** Short names of the lanes. @type {Record<string, string>} */
const LANES = { brokers: "brok", control: "ctl", data: "data" };

/** @param {{ x: number, y: number, lane: StagePart }} props */
function Lane({ x, y, lane }) {
	return html`<g class=${`lane ${lane.depth > 0 ? "is-used" : ""}`}>
		<rect x=${x} y=${y} width="46" height="22" rx="6" />
		<text x=${x + 23} y=${y + 15} text-anchor="middle">
			${LANES[lane.name] ?? lane.name} ${lane.depth}
		</text>
	</g>`;
}

/**
 * The picture. What it says is in the table below it as well, so readers of the screen skip it.
* @param {{
 *   layout: import("./layout.js").Layout, live: LiveEvent[], cluster: any, dots: any,
 * }} props
 */
export function Picture({ layout, live, cluster, dots }) {
	return html`<svg
		class="plane"
		viewBox=${`0 0 ${layout.width} ${layout.height}`}
		aria-hidden="true"
		focusable="false"
	>
		<defs>
			<marker id="tip" viewBox="0 0 8 8" refX="5" refY="4" markerWidth="7" markerHeight="7"
				orient="auto">
				<path d="M0 0.6 6.4 4 0 7.4Z" />
			</marker>
		</defs>
		${layout.ways.map(
			(way) => html`<path class=${`way ${way.kind ?? ""}`} d=${way.d} marker-end="url(#tip)" />`,
		)}
		${layout.ways.map(
			(way) =>
				way.label &&
				html`<text class="way-label" x=${way.at?.[0]} y=${way.at?.[1]}>${way.label}</text>`,
		)}
		${Object.entries(layout.boxes).map(
			([name, box]) =>
				html`<${StageBox} key=${name} name=${name} box=${box} live=${live} cluster=${cluster} />`,
		)}
		${ends(cluster).map(
			(text, i) => html`<text class="way-label" x=${layout.mark[0]} y=${layout.mark[1] + i * 15}>
				${text}
			</text>`,
		)}
		<g ref=${dots}></g>
	</svg>`;
}

/** What the API calls a stage, its name in words, what waits, and its box in the picture. */
export const STALLS = [
	["request_queue", "Request queue", "Requests wait before their handlers.", "request_queue"],
	["io_threads", "I/O threads", "Every I/O thread stands still.", "io_threads"],
	["log", "Commit log", "Writes of records wait.", "commit_log"],
	["response_queue", "Response queue", "Answers wait.", "response_queues"],
];

/**
 * A button that stalls a stage, and lets it go on.
 * @param {{ stage: string, faults: any[], command: import("../command.js").Command,
 *   show: (isStalled: boolean) => object }} props `show` says what the button has besides.
 */
export function Stall({ stage, faults, command, show }) {
	const stall = faults.find((fault) => fault.kind === "stall" && fault.stage === stage);
	const toggle = () =>
		stall
			? command.run("DELETE", `/faults/${stall.id}`)
			: command.run("POST", "/faults", { kind: "stall", stage });
	return html`<button class=${stall ? "main" : ""} disabled=${command.busy} onClick=${toggle}
		...${show(!!stall)} />`;
}
