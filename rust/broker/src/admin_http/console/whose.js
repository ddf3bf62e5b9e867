// Whose figures the pages show: on a cluster those of all brokers together, or of one of them.

import { duration } from "./format.js";
import { useAsked } from "./parts.js";
import { html, useEffect, useState } from "./vendor/preact.js";

/** The pages whose figures those of other brokers can be. */
export const OF_ALL = ["plane", "overview", "topics", "groups", "clients"];

/** Empty for a broker without company: it answers for itself. */
let chosen = "";
/** @type {Set<() => void>} */
const readers = new Set();

/** "all", the id of a broker, or nothing. @returns {string} */
export function whose() {
	return chosen;
}

/** Calls `reader` after each choice; returns what ends that. @param {() => void} reader */
export function onChoice(reader) {
	readers.add(reader);
	return () => void readers.delete(reader);
}

/** @param {string} broker */
export function choose(broker) {
	if (broker === chosen) return;
	chosen = broker;
	for (const reader of readers) reader();
}

/** @returns {string} */
function useWhose() {
	const [broker, set] = useState(chosen);
	useEffect(() => onChoice(() => set(chosen)), []);
	return broker;
}

/**
 * As `useAsked`, with the figures of the brokers that are chosen.
 * @param {string} path @param {import("./parts.js").Query} [query] @param {number} [everyMs]
 */
export function useFigures(path, query = {}, everyMs) {
	return useAsked(path, { ...query, broker: useWhose() }, everyMs);
}

/** Whose figures an answer has. @param {any} data @returns {string} */
export function owner(data) {
	const sources = data.figures_of;
	if (!sources || sources.length < 2) return `broker ${data.broker_id}`;
	const answered = sources.filter((/** @type {any} */ one) => one.answered).length;
	return answered === sources.length
		? `all ${answered} brokers together`
		: `${answered} of ${sources.length} brokers together`;
}

/** Which brokers did not answer. @param {{ of: any }} props */
export function Missing({ of }) {
	const away = (of?.figures_of ?? []).filter((/** @type {any} */ one) => !one.answered);
	return away.map((/** @type {any} */ one) => {
		const ago = one.last_answer_ms_ago;
		return html`<div class="trouble" role="status">
			<strong>Broker ${one.broker_id} does not answer: its figures are missing</strong>
			<p><bdi>${one.why}</bdi>. It last answered
				${ago === null ? " before anyone asked here" : ` ${duration(ago)} ago`}.</p>
		</div>`;
	});
}

/** Chooses whose figures are shown. @param {{ own: number }} props */
export function Choice({ own }) {
	const broker = useWhose();
	const cluster = useAsked("/cluster", {}, 10_000);
	const ids = cluster.data?.brokers.map((/** @type {any} */ one) => one.id) ?? [];
	return html`<label class="choice">
		Figures of
		<select onChange=${(event) => choose(event.target.value)}>
			${["all", ...ids].map(
				(id) =>
					html`<option value=${id} selected=${String(id) === broker}>
						${id === "all" ? "all brokers" : `broker ${id}${id === own ? " (this one)" : ""}`}
					</option>`,
			)}
		</select>
	</label>`;
}
