// The data plane: the way of a request, alive.

import { Chart } from "../chart.js";
import { bytes, count, duration, percent, short } from "../format.js";
import { useCommand } from "../command.js";
import { current, read } from "../live.js";
import { Heading, Table, Trouble, useAsked } from "../parts.js";
import { Dots } from "../plane/dots.js";
import { NARROW, STAGES, WIDE, ink } from "../plane/layout.js";
import { Picture, STALLS, Stall, ends, furthest } from "../plane/picture.js";
import { Waterfall } from "../plane/waterfall.js";
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { Missing, owner, useFigures } from "../whose.js";

const SMALL = matchMedia("(max-width: 760px)");
const STILL = matchMedia("(prefers-reduced-motion: reduce)");
/** Requests of the list. */
const LISTED = 12;

/** @param {MediaQueryList} query @returns {boolean} */
function useMatch(query) {
	const [matches, setMatches] = useState(query.matches);
	useEffect(() => {
		const changed = () => setMatches(query.matches);
		query.addEventListener("change", changed);
		return () => query.removeEventListener("change", changed);
	}, []);
	return matches;
}

/** The slider's place as ms of the page for one ms of a request. @param {number} at */
function slowness(at) {
	return Math.round(10 ** (at / 20));
}

/**
 * Lets the requests of each event travel.
 * @param {import("../live.js").Live} live @param {any} layout @param {number} slow
 * @param {(request: RequestRow) => void} pick
 */
function useDots(live, layout, slow, pick) {
	const group = useRef(/** @type {any} */ (null));
	const dots = useRef(/** @type {Dots | null} */ (null));
	const event = live.events[live.events.length - 1];
	const isDrawn = event !== undefined;
	useEffect(() => {
		if (!group.current) return;
		dots.current = new Dots(group.current, pick);
		return () => dots.current?.clear();
	}, [layout, isDrawn]);
	useEffect(() => {
		if (event && !STILL.matches && live.state === "live") {
			dots.current?.add([...event.requests, ...event.slow], layout, slow);
		}
	}, [event]);
	return group;
}

/** @param {{ events: LiveEvent[] }} props */
function Charts({ events }) {
	/** @type {Columns} */
	const requests = useMemo(() => columns(events, (event) => [event.requests_per_second]), [events]);
	/** @type {Columns} */
	const traffic = useMemo(
		() => columns(events, (event) => [event.bytes_in_per_second, event.bytes_out_per_second]),
		[events],
	);
	return html`<div class="charts">
		<${Chart} title="Requests a second" names=${["requests"]} columns=${requests} show=${short} />
		<${Chart} title="Bytes a second" names=${["in", "out"]} columns=${traffic} show=${bytes} />
	</div>`;
}

/**
 * @param {LiveEvent[]} events @param {(event: LiveEvent) => number[]} of
 * @returns {Columns}
 */
function columns(events, of) {
	const rows = events.map(of);
	const series = (rows[0] ?? [0]).map((_, i) => rows.map((row) => row[i]));
	return [events.map((event) => event.timestamp_ms / 1000), ...series];
}

/** Buttons at the stages that can stand still. @param {{ layout: any, own: number }} props */
function Stalls({ layout, own }) {
	const of = useAsked("/faults", {}, 1000);
	const command = useCommand(of.reload);
	return html`<${Trouble} refusal=${command.refusal} />
		${STALLS.map(([stage, name, means, box]) => {
			const { x, y, w } = layout.boxes[box];
			const style = {
				left: `${((x + w - 10) / layout.width) * 100}%`,
				top: `${(y / layout.height) * 100}%`,
			};
			const show = (/** @type {boolean} */ isStalled) => {
				const children = isStalled ? "Release" : "Stall";
				const label = `${children} ${name} of broker ${own}`;
				return { style, title: means, "aria-label": label, children };
			};
			return html`<${Stall} stage=${stage} faults=${of.data?.faults ?? []} command=${command}
				show=${show} />`;
		})}`;
}

/** @param {{ event: LiveEvent, cluster: any }} props */
function Stages({ event, cluster }) {
	const rows = event.stages.map((stage) => [
		STAGES[stage.name]?.title ?? stage.name,
		count(stage.depth),
		stage.busy === null ? "–" : percent(stage.busy),
		short(stage.per_second),
		duration(stage.p50_ms),
		duration(stage.p99_ms),
		html`<span class="muted">${STAGES[stage.name]?.says}</span>`,
	]);
	return html`<details class="card">
		<summary>The stages as a table</summary>
		<${Table}
			caption="Stages of the data plane"
			columns=${[
				["Stage"], ["Depth", "number"], ["Busy", "number"], ["A second", "number"],
				["p50", "number"], ["p99", "number"], ["What it does"],
			]}
			rows=${rows}
		/>
		<p>${ends(cluster).join(", ")}</p>
		${cluster?.brokers > 1 &&
		html`<${Table}
			caption="Replicas that follow"
			columns=${[
				["Broker", "number"], ["Replicas", "number"], ["In sync", "number"], ["Behind", "number"],
				["Records behind", "number"],
			]}
			rows=${furthest(cluster).map((one) => [
				one.broker_id, count(one.replicas), count(one.in_sync), count(one.replicas_behind),
				count(one.records_behind),
			])}
		/>`}
	</details>`;
}

/**
 * The list stands still while the pointer or the focus is in it.
 * @param {{ requests: RequestRow[], pick: (request: RequestRow) => void }} props
 */
function Sampled({ requests, pick }) {
	const [held, hold] = useState(/** @type {RequestRow[] | null} */ (null));
	const keep = () => hold((last) => last ?? requests);
	const rows = (held ?? requests).map((request) => [
		html`<button class="link" onClick=${() => pick(request)}>
			<span class=${`swatch ${ink(request.api)}`} aria-hidden="true"></span>${request.api}
		</button>`,
		html`<bdi>${request.client_id ?? "–"}</bdi>`,
		duration(request.waited_ms),
		duration(request.total_ms),
	]);
	return html`<section
		class="card"
		onMouseEnter=${keep}
		onMouseLeave=${() => hold(null)}
		onfocusin=${keep}
		onfocusout=${() => hold(null)}
	>
		<h2>Sampled requests</h2>
		<${Table}
			caption="The last sampled requests; each opens its stages"
			columns=${[["Request"], ["Client"], ["Waited", "number"], ["Total", "number"]]}
			rows=${rows}
			empty="No request was answered since this page is open."
		/>
	</section>`;
}

/** @param {{ event: LiveEvent }} props */
function Apis({ event }) {
	const rows = event.apis.map((api) => [
		html`<span class=${`swatch ${ink(api.api)}`} aria-hidden="true"></span>${api.api}`,
		short(api.per_second),
		duration(api.p50_ms),
		duration(api.p99_ms),
	]);
	return html`<section class="card">
		<h2>Requests by API</h2>
		<${Table}
			caption="Requests by API, from the frame to the last byte of the answer"
			columns=${[["API"], ["A second", "number"], ["p50", "number"], ["p99", "number"]]}
			rows=${rows}
			empty="No requests now."
		/>
	</section>`;
}

/** Whether a broker is in the figures of an event. @param {LiveEvent} event @param {any} own */
function has({ figures_of }, own) {
	return own && (figures_of ?? [own]).some((one) => one.broker_id === own.broker_id);
}

/** @param {{ overview: any, control: any }} props What the broker that is asked says of itself. */
export function Plane({ overview: own, control }) {
	const [live, setLive] = useState(current);
	const [picked, pick] = useState(/** @type {RequestRow | null} */ (null));
	const [at, setAt] = useState(50);
	const isSmall = useMatch(SMALL);
	const layout = isSmall ? NARROW : WIDE;
	const overview = useFigures("/overview", {}, 2000);
	useEffect(() => read(setLive), []);
	const slow = slowness(at);
	const group = useDots(live, layout, slow, pick);
	const event = live.events[live.events.length - 1];
	const listed = live.events.slice(-25).flatMap((past) => past.requests).slice(-LISTED).reverse();
	const often = event?.figures_of ? "once" : "five times";
	const whose = event && `Figures of ${owner(event)}, ${often} a second.`;
	return html`<${Heading} title="Data plane" whose=${whose}>
			<div class="legend">
				<span><i class="swatch produce"></i>Produce</span>
				<span><i class="swatch fetch"></i>Fetch</span>
				<span><i class="swatch other"></i>other requests</span>
				<label class="slow">
					Slow motion
					<input
						type="range"
						min="0"
						max="70"
						value=${at}
						aria-valuetext=${`1 ms takes ${duration(slow)}`}
						onInput=${(input) => setAt(Number(input.target.value))}
					/>
					<output>1 ms takes ${duration(slow)}</output>
				</label>
			</div>
		<//>
		<${Trouble} refusal=${live.refusal} /> <${Missing} of=${event} />
		${!event && live.state !== "refused" && html`<p role="status">Waiting for the stream…</p>`}
		${event &&
		html`<div class=${`card picture ${live.state === "live" ? "" : "is-old"}`}>
				<div class="stages">
					<${Picture} layout=${layout} live=${live.events} cluster=${overview.data} dots=${group} />
					${control && live.state === "live" && has(event, own) &&
					html`<${Stalls} layout=${layout} own=${own.broker_id} />`}
				</div>
			</div>
			${picked && html`<${Waterfall} request=${picked} onClose=${() => pick(null)} />`}
			<${Charts} events=${live.events} />
			<div class="columns">
				<${Apis} event=${event} /> <${Sampled} requests=${listed} pick=${pick} />
			</div>
			<${Stages} event=${event} cluster=${overview.data} />`}`;
}
