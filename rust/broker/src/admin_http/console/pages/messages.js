// The messages of a topic.

import { NewMessage, useWritable } from "../changes.js";
import { count, moment } from "../format.js";
import { Shape, Shown, useAsked } from "../parts.js";
import { html, useState } from "../vendor/preact.js";

const FORMATS = ["auto", "json", "text", "hex"];

/** @typedef {{ partition: number, from: string, value: string, format: string }} Asked */

/** What a choice of the form asks the API for. @param {Asked} asked */
function query(asked) {
	const { partition, from, value, format } = asked;
	/** @type {Record<string, string | number | null>} */
	const all = { partition, format, limit: 50 };
	if (from === "tail") all.tail = value || 50;
	if (from === "offset") all.offset = value || 0;
	if (from === "time") all.time = value ? new Date(value).getTime() : 0;
	return all;
}

/** @param {{ asked: Asked, partitions: number, onAsk: (asked: Asked) => void }} props */
function Form({ asked, partitions, onAsk }) {
	const change = (/** @type {string} */ key) => (/** @type {any} */ event) => {
		const value = key === "partition" ? Number(event.target.value) : event.target.value;
		onAsk({ ...asked, [key]: value, ...(key === "from" ? { value: "" } : {}) });
	};
	const kind = { tail: "number", offset: "number", time: "datetime-local" }[asked.from];
	return html`<form class="ask" onSubmit=${(event) => event.preventDefault()}>
		<label>Partition
			<input type="number" min="0" max=${Math.max(partitions - 1, 0)} value=${asked.partition}
				onChange=${change("partition")} />
		</label>
		<label>From
			<select value=${asked.from} onChange=${change("from")}>
				<option value="tail">the newest</option>
				<option value="offset">an offset</option>
				<option value="time">a time</option>
			</select>
		</label>
		<label>${asked.from === "tail" ? "How many" : asked.from === "offset" ? "Offset" : "Time"}
			<input type=${kind} min="0" value=${asked.value}
				placeholder=${asked.from === "tail" ? "50" : "0"}
				onChange=${change("value")} />
		</label>
		<label>Show as
			<select value=${asked.format} onChange=${change("format")}>
				${FORMATS.map((name) => html`<option value=${name}>${name}</option>`)}
			</select>
		</label>
	</form>`;
}

/** @param {{ message: any }} props */
function Message({ message }) {
	const { headers } = message;
	return html`<li class="message">
		<p class="about">
			<b>${count(message.offset)}</b>
			<time>${moment(message.timestamp_ms)}</time>
			${message.timestamp_type === "log_append_time" && html`<span>log append time</span>`}
		</p>
		<dl>
			<dt>Key</dt>
			<dd><${Shape} field=${message.key} /></dd>
			<dt>Value</dt>
			<dd><${Shape} field=${message.value} /></dd>
			${headers.map(
				(/** @type {any} */ header) => html`<dt>Header <bdi>${header.name}</bdi></dt>
					<dd><${Shape} field=${header.value} /></dd>`,
			)}
		</dl>
	</li>`;
}

/** @param {{ path: string }} props */
export function Messages({ path }) {
	const start = { partition: 0, from: "tail", value: "", format: "auto" };
	const [asked, onAsk] = useState(/** @type {Asked} */ (start));
	const topic = useAsked(path, { limit: 1 }, 0);
	const of = useAsked(`${path}/messages`, query(asked), asked.from === "tail" ? 3000 : 0);
	const later = (/** @type {number} */ offset) =>
		onAsk({ ...asked, from: "offset", value: String(offset) });
	const partitions = topic.data?.topic.partitions ?? 1;
	const writable = useWritable() && topic.data && !topic.data.topic.internal;
	return html`${writable &&
		html`<${NewMessage} path=${path} partitions=${partitions} onDone=${of.reload} />`}
		<${Form} asked=${asked} partitions=${partitions} onAsk=${onAsk} />
		<${Shown} of=${of} show=${(data) => {
			const messages = asked.from === "tail" ? [...data.messages].reverse() : data.messages;
			return html`<p class="whose">
					Partition ${data.partition} of broker ${data.broker_id}: offsets
					${` ${count(data.log_start_offset)} to ${count(data.high_watermark)}`}.
					${asked.from === "tail" && " The newest stand first."}
				</p>
				${messages.length === 0 && html`<p class="empty">There are no messages here.</p>`}
				<ol class="messages">
					${messages.map((/** @type {any} */ one) => html`<${Message} message=${one} />`)}
				</ol>
				${asked.from !== "tail" && data.next_offset !== null &&
				html`<nav class="pager" aria-label="Later messages">
					<button onClick=${() => later(data.next_offset)}>Later messages →</button>
				</nav>`}`;
		}} />`;
}

