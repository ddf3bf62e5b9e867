// Sampled requests travel through the picture as dots, in slow motion.

import { ink, stagesOf, track } from "./layout.js";

/** Dots at a time, at most. */
const MOST = 70;
/** How long a dot takes between two stages, in ms of the page. */
const LEG = 260;
/** How long it stays in a stage: at least, at most. */
const STAY = [40, 2600];
/** Requests of one event begin within this time, as they did. */
const SPREAD = 190;

/** @typedef {{ from: [number, number], to: [number, number], start: number, end: number }} Leg */
/** @typedef {{ circle: SVGCircleElement, legs: Leg[], end: number }} Dot */

/**
 * The way of a request: straight legs, each with its time.
 * @param {RequestRow} request @param {import("./layout.js").Layout} layout
 * @param {number} begin @param {number} slow ms of the page for one ms of the request
 * @returns {Leg[]}
 */
export function wayOf(request, layout, begin, slow) {
	const aside = (/** @type {import("./layout.js").Box} */ box) => {
		const [x, y] = track(box);
		/** @type {[number, number]} */
		const moved = [x + (Math.random() - 0.5) * (box.w - 44), y + (Math.random() - 0.5) * 9];
		return moved;
	};
	/** @type {Leg[]} */
	const legs = [];
	let at = layout.in;
	let now = begin;
	let before = "in";
	const go = (/** @type {[number, number]} */ to, /** @type {number} */ took) => {
		legs.push({ from: at, to, start: now, end: now + took });
		at = to;
		now += took;
	};
	for (const { stage, ms } of stagesOf(request)) {
		const skips = stage === "request_queue" && ms === 0;
		if (!skips) {
			const isInline = before === "network_threads" && stage === "io_threads";
			const bends = isInline ? layout.bends.inline : (layout.bends[`${before}>${stage}`] ?? []);
			const took = LEG / (bends.length + 1);
			for (const bend of bends) go(bend, took);
			go(aside(layout.boxes[stage]), took);
			if (ms > 0) go(at, Math.min(Math.max(ms * slow, STAY[0]), STAY[1]));
			before = stage;
		}
	}
	for (const bend of layout.bends["response_send>out"] ?? []) go(bend, LEG / 2);
	go(layout.out, LEG);
	return legs;
}

/** The dots of one picture. */
export class Dots {
	/** @param {SVGGElement} group @param {(request: RequestRow) => void} onPick */
	constructor(group, onPick) {
		this.group = group;
		this.onPick = onPick;
		/** @type {Dot[]} */
		this.dots = [];
		this.frame = 0;
		this.run = this.run.bind(this);
	}

	/**
	 * Sends requests on their way.
	 * @param {RequestRow[]} requests @param {import("./layout.js").Layout} layout
	 * @param {number} slow
	 */
	add(requests, layout, slow) {
		const now = performance.now();
		requests.slice(0, MOST - this.dots.length).forEach((request, i) => {
			const begin = now + (SPREAD * i) / requests.length;
			const legs = wayOf(request, layout, begin, slow);
			const circle = document.createElementNS("http://www.w3.org/2000/svg", "circle");
			circle.setAttribute("r", "5.5");
			circle.setAttribute("class", `dot ${ink(request.api)}`);
			circle.setAttribute("cx", "-20");
			circle.addEventListener("click", () => this.onPick(request));
			this.group.append(circle);
			this.dots.push({ circle, legs, end: legs[legs.length - 1].end });
		});
		if (!this.frame) this.frame = requestAnimationFrame(this.run);
	}

	/** @param {number} now */
	run(now) {
		this.dots = this.dots.filter((dot) => {
			if (now > dot.end) {
				dot.circle.remove();
				return false;
			}
			const leg = dot.legs.find((leg) => now <= leg.end) ?? dot.legs[dot.legs.length - 1];
			const share = Math.max(0, Math.min(1, (now - leg.start) / (leg.end - leg.start)));
			const [x, y] = [0, 1].map((i) => leg.from[i] + (leg.to[i] - leg.from[i]) * share);
			dot.circle.setAttribute("cx", x.toFixed(1));
			dot.circle.setAttribute("cy", y.toFixed(1));
			return true;
		});
		this.frame = this.dots.length ? requestAnimationFrame(this.run) : 0;
	}

	clear() {
		cancelAnimationFrame(this.frame);
		this.frame = 0;
		for (const dot of this.dots) dot.circle.remove();
		this.dots = [];
	}
}
