// Lines over time, drawn by uPlot in the colours of the page.

import { html, useEffect, useRef } from "./vendor/preact.js";

const HEIGHT = 150;

/** @param {string} name @returns {string} */
function colour(name) {
	return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** @param {any} _ @param {number[]} times @returns {string[]} */
function clocks(_, times) {
	return times.map((time) => new Date(time * 1000).toLocaleTimeString("en-GB"));
}

/** @param {any} _ @param {number} __ @param {number} top @returns {[number, number]} */
function fromZero(_, __, top) {
	return [0, Math.max(top * 1.15, 1)];
}

/**
 * @param {string[]} names @param {(n: number) => string} show @param {number} width
 * @returns {object}
 */
function options(names, show, width) {
	const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 } };
	const font = '11px Inter, "Liberation Sans", system-ui, sans-serif';
	const inks = ["--produce", "--fetch", "--other", "--slow"];
	return {
		width,
		height: HEIGHT,
		cursor: { show: true, drag: { x: false, y: false } },
		legend: { show: false },
		scales: { y: { range: fromZero } },
		axes: [
			{ ...axis, font, ticks: { show: false }, space: 90, size: 28, values: clocks },
			{ ...axis, font, ticks: { show: false }, size: 62, space: 34,
				values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map(show) },
		],
		series: [
			{},
			...names.map((label, i) => ({
				label,
				stroke: colour(inks[i] ?? "--muted"),
				fill: `${colour(inks[i] ?? "--muted")}1c`,
				width: 2,
				points: { show: false },
			})),
		],
	};
}

/**
 * @param {{ title: string, names: string[], columns: Columns, show: (n: number) => string }} props
 *   The first column has the times in seconds.
 */
export function Chart({ title, names, columns, show }) {
	const box = useRef(/** @type {any} */ (null));
	const plot = useRef(/** @type {uPlot | null} */ (null));
	useEffect(() => {
		const width = () => Math.max(box.current.clientWidth, 120);
		const draw = () => {
			plot.current?.destroy();
			plot.current = new uPlot(options(names, show, width()), columns, box.current);
		};
		draw();
		const dark = matchMedia("(prefers-color-scheme: dark)");
		const sized = new ResizeObserver(() =>
			plot.current?.setSize({ width: width(), height: HEIGHT }),
		);
		sized.observe(box.current);
		dark.addEventListener("change", draw);
		return () => {
			dark.removeEventListener("change", draw);
			sized.disconnect();
			plot.current?.destroy();
			plot.current = null;
		};
	}, []);
	useEffect(() => plot.current?.setData(columns), [columns]);
	const last = columns.slice(1).map((column) => column[column.length - 1] ?? 0);
	return html`<figure class="chart">
		<figcaption>
			<span>${title}</span>
			${names.map(
				(name, i) =>
					html`<span class=${`key ink-${i}`}>${name} <b>${show(Number(last[i]))}</b></span>`,
			)}
		</figcaption>
		<div class="plot" ref=${box} role="img" aria-label=${`${title}, the last minute`}></div>
	</figure>`;
}
