// What all pages are made of.

import { Refused, get } from "./api.js";
import { bytes } from "./format.js";
import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { Missing } from "./whose.js";

/** @typedef {Record<string, string | number | null | undefined>} Query */
/** @typedef {{ data: any, refusal: Refusal | null, reload: () => void }} Asked */

/**
 * The answer of a path, asked for again every `everyMs` while the page is seen. What was answered
 * stays while the broker does not answer.
 * @param {string} path @param {Query} [query] @param {number} [everyMs] 0 asks once
 * @returns {Asked}
 */
export function useAsked(path, query = {}, everyMs = 3000) {
	const key = path + JSON.stringify(query);
	const [of, setOf] = useState(/** @type {any} */ ({ key: "", data: null, refusal: null }));
	const [turn, setTurn] = useState(0);
	useEffect(() => {
		const stop = new AbortController();
		const again = () => setTurn((last) => last + 1);
		let timer = 0;
		const plan = () => {
			if (everyMs && !stop.signal.aborted) timer = setTimeout(again, everyMs);
		};
		if (document.hidden && of.key === key) {
			plan();
		} else {
			get(path, query, stop.signal)
				.then((data) => setOf({ key, data, refusal: null }))
				.catch((error) => {
					if (stop.signal.aborted) return;
					if (!(error instanceof Refused)) throw error;
					setOf((/** @type {any} */ last) => ({
						key,
						data: last.key === key && error.status === 0 ? last.data : null,
						refusal: error.refusal,
					}));
				})
				.finally(plan);
		}
		return () => {
			stop.abort();
			clearTimeout(timer);
		};
	}, [key, everyMs, turn]);
	const isOf = of.key === key;
	const reload = () => setTurn((last) => last + 1);
	return { data: isOf ? of.data : null, refusal: isOf ? of.refusal : null, reload };
}

/** The heading of a page, and whose figures it shows. @param {any} props */
export function Heading({ title, whose, children }) {
	useEffect(() => {
		document.title = `${title} · kafkalite`;
	}, [title]);
	return html`<header class="heading">
		<h1><bdi>${title}</bdi></h1>
		${whose && html`<p class="whose">${whose}</p>`} ${children}
	</header>`;
}

/** @param {{ refusal: Refusal | null }} props */
export function Trouble({ refusal }) {
	return (
		refusal &&
		html`<div class="trouble" role="alert">
			<strong>${refusal.what}</strong>
			<p>${refusal.why}. ${refusal.hint}</p>
		</div>`
	);
}

/**
 * What a page shows before its answer, instead of it, or of it.
 * @param {{ of: Asked, show: (data: any) => any }} props
 */
export function Shown({ of, show }) {
	const waits = !of.data && !of.refusal;
	return html`<${Trouble} refusal=${of.refusal} />
		${waits && html`<p class="muted" role="status">Asking the broker…</p>`}
		<${Missing} of=${of.data} /> ${of.data && show(of.data)}`;
}

/**
 * A table.
 * @param {{ caption: string, columns: [string, string?][], rows: any[][], empty?: string }} props
 *   A column's second word is its class: `number` for figures.
 */
export function Table({ caption, columns, rows, empty = "There is nothing to show." }) {
	if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
	return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
		<table>
			<caption>${caption}</caption>
			<thead>
				<tr>
					${columns.map(([name, kind]) => html`<th scope="col" class=${kind}>${name}</th>`)}
				</tr>
			</thead>
			<tbody>
				${rows.map(
					(row) =>
						html`<tr>
							${row.map((cell, at) => html`<td class=${columns[at]?.[1]}>${cell}</td>`)}
						</tr>`,
				)}
			</tbody>
		</table>
	</div>`;
}

/**
 * Pages of a list: the place of each page that was seen.
 * @returns {{ after: string | number | null, pager: (next: any) => any, restart: () => void }}
 */
export function usePages() {
	const [places, setPlaces] = useState(/** @type {any[]} */ ([null]));
	const after = places[places.length - 1];
	const pager = (/** @type {any} */ next) => {
		const isLast = next === null || next === undefined;
		if (places.length === 1 && isLast) return null;
		return html`<nav class="pager" aria-label="Pages of the list">
			<button
				disabled=${places.length === 1}
				onClick=${() => setPlaces((all) => all.slice(0, -1))}
			>
				← Back
			</button>
			<span>Page ${places.length}</span>
			<button disabled=${isLast} onClick=${() => setPlaces((all) => [...all, next])}>
				More →
			</button>
		</nav>`;
	};
	return { after, pager, restart: () => setPlaces([null]) };
}

/**
 * A field that searches as one types.
 * @param {{ label: string, onSearch: (text: string) => void }} props
 */
export function Search({ label, onSearch }) {
	const timer = useRef(0);
	const type = (/** @type {any} */ event) => {
		const text = event.target.value;
		clearTimeout(timer.current);
		timer.current = setTimeout(() => onSearch(text), 200);
	};
	return html`<label class="search">
		<span>${label}</span>
		<input type="search" autocomplete="off" spellcheck=${false} onInput=${type} />
	</label>`;
}

/**
 * Links to the views of one thing.
 * @param {{ label: string, tabs: [string, string][], at: string }} props
 */
export function Tabs({ label, tabs, at }) {
	return html`<nav class="tabs" aria-label=${label}>
		${tabs.map(
			([name, href]) =>
				html`<a href=${href} aria-current=${name === at ? "page" : null}>${name}</a>`,
		)}
	</nav>`;
}

/** Bytes of a record. @param {{ field: Field | null }} props */
export function Shape({ field }) {
	if (!field) return html`<span class="muted">null</span>`;
	const size = field.truncated ? `first of ${bytes(field.bytes)}` : bytes(field.bytes);
	return html`<span class="field">
		<code><bdi>${field.data}</bdi></code>
		<span class="muted"> ${field.encoding}, ${size}</span>
	</span>`;
}

/**
 * A figure with its name.
 * @param {{ name: string, value: any, note?: any, kind?: string }} props
 */
export function Figure({ name, value, note, kind = "" }) {
	return html`<div class=${`figure ${kind}`}>
		<dt>${name}</dt>
		<dd>${value}${note && html`<small>${note}</small>`}</dd>
	</div>`;
}

/** @param {any} props */
export function Figures({ children }) {
	return html`<dl class="figures">${children}</dl>`;
}

/** A link to a place of the console. @param {string[]} parts @returns {string} */
export function at(...parts) {
	return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}
