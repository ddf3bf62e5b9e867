// One request: how long each stage had it.

import { duration } from "../format.js";
import { html } from "../vendor/preact.js";
import { ink } from "./layout.js";

/** @param {RequestRow} request @returns {[string, number | null][]} */
function steps(request) {
	return [
		["Request queue", request.queue_ms],
		["Handler", request.handler_ms],
		["Purgatory", request.waited_ms],
		["Response queue", request.response_queue_ms],
		["Socket send", request.send_ms],
	];
}

/** @param {number} part @returns {string} */
function share(part) {
	return `${part * 100}%`;
}

/** @param {{ request: RequestRow, onClose: () => void }} props */
export function Waterfall({ request, onClose }) {
	const total = Math.max(request.total_ms ?? request.age_ms, 1e-6);
	let begun = 0;
	const rows = steps(request).map(([name, ms]) => {
		const from = begun;
		begun += ms ?? 0;
		return { name, ms, from };
	});
	return html`<section class="waterfall" aria-label="A request and its stages">
		<header>
			<h2>
				<span class=${`swatch ${ink(request.api)}`} aria-hidden="true"></span>
				${request.api} <small>v${request.version}</small>
			</h2>
			<p>
				<bdi>${request.client_id ?? "without a client id"}</bdi> from ${request.peer}, connection
				${" "}${request.connection_id}: <b>${duration(request.total_ms)}</b>
			</p>
			<button onClick=${onClose}>Close</button>
		</header>
		<ol>
			${rows.map(
				({ name, ms, from }) =>
					html`<li>
						<span>${name}</span>
						<span class="rail">
							<span
								class=${`bar ${ink(request.api)}`}
								style=${{ left: share(from / total), width: share((ms ?? 0) / total) }}
							></span>
						</span>
						<span class="number">${duration(ms)}</span>
					</li>`,
			)}
		</ol>
	</section>`;
}
