// The one stream of the page: opened for the first reader, closed with the last, and while the page
// is hidden. The broker gathers nothing without it.

import { Refused, ask } from "./api.js";
import { onChoice, whose } from "./whose.js";

/** Events that are kept: a minute. */
const KEPT = 300;
/** Pause before another try, in ms. */
const AGAIN = [500, 1000, 2000, 4000];

/** @typedef {"connecting" | "live" | "lost" | "refused"} State */
/** @typedef {{ state: State, refusal: Refusal | null, events: LiveEvent[] }} Live */

/** @type {Live} */
let now = { state: "connecting", refusal: null, events: [] };
/** @type {Set<(live: Live) => void>} */
const readers = new Set();
/** @type {AbortController | null} */
let open = null;

/** @param {Partial<Live>} change */
function tell(change) {
	now = { ...now, ...change };
	for (const reader of readers) reader(now);
}

/** @returns {Live} */
export function current() {
	return now;
}

/** Calls `reader` with each event; returns what ends that. @param {(live: Live) => void} reader */
export function read(reader) {
	readers.add(reader);
	begin();
	return () => {
		readers.delete(reader);
		if (readers.size === 0) end();
	};
}

function begin() {
	if (open || readers.size === 0 || document.hidden) return;
	open = new AbortController();
	void follow(open);
}

function end() {
	open?.abort();
	open = null;
}

function again() {
	end();
	tell({ state: "connecting", refusal: null, events: [] });
	begin();
}

onChoice(again);

/** Whether the stream is of the broker that is asked, whatever is chosen. */
let own = false;

/** @param {boolean} is */
export function ofOwn(is) {
	own = is;
	again();
}

document.addEventListener("visibilitychange", () => (document.hidden ? end() : begin()));

/** Opens the stream again and again. @param {AbortController} mine */
async function follow(mine) {
	for (let failed = 0; !mine.signal.aborted; failed += 1) {
		try {
			const answer = await ask("/live", { broker: own ? "" : whose() }, { signal: mine.signal });
			await take(answer, () => (failed = 0));
			if (!mine.signal.aborted) tell({ state: "lost", refusal: null });
		} catch (error) {
			if (mine.signal.aborted) return;
			const refused = error instanceof Refused && error.status !== 0 ? error.refusal : null;
			tell({ state: refused ? "refused" : "lost", refusal: refused });
		}
		const pause = AGAIN[Math.min(failed, AGAIN.length - 1)];
		await new Promise((resolve) => setTimeout(resolve, pause));
	}
}

/** @param {Response} answer @param {() => void} got */
async function take(answer, got) {
	if (!answer.body) return;
	const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
	let text = "";
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		text += value;
		const frames = text.split("\n\n");
		text = frames.pop() ?? "";
		for (const frame of frames) {
			const data = frame.split("\n").find((line) => line.startsWith("data: "));
			if (!data) continue;
			got();
			const events = [...now.events, JSON.parse(data.slice(6))].slice(-KEPT);
			tell({ state: "live", refusal: null, events });
		}
	}
}
