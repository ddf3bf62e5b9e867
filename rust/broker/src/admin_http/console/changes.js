// Changes of topics, keys, messages and groups: forms, where the broker takes changes.

import { part } from "./api.js";
import { useCommand } from "./command.js";
import { count } from "./format.js";
import { Table, Trouble, at, useAsked } from "./parts.js";
import { html, useState } from "./vendor/preact.js";

/** Whether the broker takes changes. @returns {boolean} */
export function useWritable() {
	return useAsked("/overview", {}, 0).data?.writable ?? false;
}

/**
 * A form that opens, its command and what it did.
 * @param {{ title: string, command: import("./command.js").Command, said: string | null,
 *   onSubmit: (values: Record<string, string>, form: any) => void, children: any, after?: any }}
 *   props `onSubmit` gets the fields that are not empty.
 */
function Change({ title, command, said, onSubmit, children, after }) {
	const submit = (/** @type {any} */ event) => {
		event.preventDefault();
		const filled = [...new FormData(event.target)].map(([name, value]) => [name, String(value)]);
		onSubmit(Object.fromEntries(filled.filter(([, value]) => value !== "")), event.target);
	};
	return html`<details class="card">
		<summary>${title}</summary>
		<${Trouble} refusal=${command.refusal} />
		<form class="ask" onSubmit=${submit}>${children}</form>
		${said && html`<p role="status">${said}</p>`} ${after}
	</details>`;
}

/**
 * A field of a form.
 * @param {{ label: string, name: string, type?: string, needed?: boolean, hint?: string,
 *   min?: number, max?: number, value?: any, onInput?: any }} props
 */
function Field({
	label, name, type = "text", needed = false, hint = "", min, max, value, onInput,
}) {
	return html`<label>
		${label}
		<input name=${name} type=${type} required=${needed} placeholder=${hint} min=${min}
			max=${max} value=${value} autocomplete="off" spellcheck=${false} onInput=${onInput} />
	</label>`;
}

/** @param {{ onDone: () => void }} props */
export function NewTopic({ onDone }) {
	const command = useCommand(onDone);
	const [said, setSaid] = useState(/** @type {string | null} */ (null));
	const create = async (/** @type {Record<string, string>} */ values, /** @type {any} */ form) => {
		const { name, partitions, replicas } = values;
		const made = await command.run("POST", "/topics", {
			name,
			partitions: partitions ? Number(partitions) : null,
			replication_factor: replicas ? Number(replicas) : null,
		});
		setSaid(made && `Topic ${made.name} has ${count(made.partitions)} partitions.`);
		if (made) form.reset();
	};
	return html`<${Change} title="New topic" command=${command} said=${said} onSubmit=${create}>
		<${Field} label="Name" name="name" needed />
		<${Field} label="Partitions" name="partitions" type="number" min=${1} hint="default" />
		<${Field} label="Replicas" name="replicas" type="number" min=${1} hint="default" />
		<button class="main" disabled=${command.busy}>Create the topic</button>
	<//>`;
}

/**
 * Deletes something whose name has to be typed.
 * @param {{ title: string, name: string, path: string, to: string, button: string }} props
 *   `to` is the page of the others of its kind.
 */
function Delete({ title, name, path, to, button }) {
	const command = useCommand(() => {});
	const [typed, setTyped] = useState("");
	const remove = async () => {
		if (await command.run("DELETE", path)) location.hash = at(to);
	};
	return html`<${Change} title=${title} command=${command} said=${null} onSubmit=${remove}>
		<${Field} label="Type its name" name="typed" value=${typed}
			onInput=${(event) => setTyped(event.target.value)} />
		<button class="danger" disabled=${command.busy || typed !== name}>${button}</button>
	<//>`;
}

/** @param {{ topic: any }} props The topic as the page shows it. */
export function DeleteTopic({ topic }) {
	const path = `/topics/${part(topic.name)}?id=${encodeURIComponent(topic.id)}`;
	return html`<${Delete} title="Delete the topic" name=${topic.name} path=${path} to="topics"
		button="Delete the topic and its records" />`;
}

/** @param {{ id: string }} props */
export function DeleteGroup({ id }) {
	return html`<${Delete} title="Delete the group" name=${id} path=${`/groups/${part(id)}`}
		to="groups" button="Delete the group and its offsets" />`;
}

/** @param {{ path: string, partitions: number, onDone: () => void }} props */
export function AddPartitions({ path, partitions, onDone }) {
	const command = useCommand(onDone);
	const [said, setSaid] = useState(/** @type {string | null} */ (null));
	const add = async (/** @type {Record<string, string>} */ values) => {
		const grown = await command.run("POST", `${path}/partitions`, { count: Number(values.count) });
		setSaid(grown && `The topic has ${count(grown.partitions)} partitions.`);
	};
	return html`<${Change} title="Add partitions" command=${command} said=${said} onSubmit=${add}>
		<${Field} label="Partitions afterwards" name="count" type="number" min=${partitions + 1}
			needed />
		<button class="main" disabled=${command.busy}>Add partitions</button>
	<//>`;
}

/**
 * Sets a key of a topic; of brokers if `path` is empty.
 * @param {{ path: string, broker: number, onDone: () => void }} props
 */
export function SetKey({ path, broker, onDone }) {
	const command = useCommand(onDone);
	const [said, setSaid] = useState(/** @type {string | null} */ (null));
	const change = async (/** @type {Record<string, string>} */ values) => {
		const { key, value, what, whose } = values;
		const altered = what === "unset" ? { unset: [key] } : { set: { [key]: value ?? "" } };
		const of = path ? {} : { broker: whose === "all" ? "all" : broker };
		const done = await command.run("PATCH", `${path}/config`, { ...of, ...altered });
		setSaid(done && (what === "unset" ? `${key} has no value of its own.` : `${key} is set.`));
	};
	return html`<${Change} title="Change a key" command=${command} said=${said} onSubmit=${change}>
		<${Field} label="Key" name="key" needed />
		<label>
			Change
			<select name="what">
				<option value="set">set the value</option>
				<option value="unset">remove the value</option>
			</select>
		</label>
		<${Field} label="Value" name="value" />
		${!path && html`<label>
			Of
			<select name="whose">
				<option value="one">broker ${broker}</option>
				<option value="all">all brokers</option>
			</select>
		</label>`}
		<button class="main" disabled=${command.busy}>Change the key</button>
	<//>`;
}

/** @param {{ path: string, partitions: number, onDone: () => void }} props */
export function NewMessage({ path, partitions, onDone }) {
	const command = useCommand(onDone);
	const [said, setSaid] = useState(/** @type {string | null} */ (null));
	const [isNull, setIsNull] = useState(false);
	const append = async (/** @type {Record<string, string>} */ values) => {
		const { partition, key, value, encoding } = values;
		const appended = await command.run("POST", `${path}/messages`, {
			partition: Number(partition ?? 0),
			key: key === undefined ? null : { [encoding]: key },
			value: isNull ? null : { [encoding]: value ?? "" },
		});
		setSaid(appended && `Partition ${appended.partition} has it at ${count(appended.offset)}.`);
	};
	return html`<${Change} title="New message" command=${command} said=${said} onSubmit=${append}>
		<label>
			Partition
			<input type="number" name="partition" min="0" max=${Math.max(partitions - 1, 0)} value="0" />
		</label>
		<${Field} label="Key" name="key" hint="none" />
		<${Field} label="Value" name="value" />
		<label class="check">
			<input type="checkbox" checked=${isNull}
				onChange=${(event) => setIsNull(event.target.checked)} />
			null in place of the value
		</label>
		<label>
			Given as
			<select name="encoding">
				<option value="text">text</option>
				<option value="hex">hex</option>
			</select>
		</label>
		<button class="main" disabled=${command.busy}>Append the message</button>
	<//>`;
}

const TARGETS = /** @type {[string, string][]} */ ([
	["earliest", "the first record"],
	["latest", "the end"],
	["offset", "an offset"],
	["time_ms", "a time"],
	["by", "so many records further"],
]);

/** Beyond these a number is rounded, and others than meant would be sent. */
const EXACT = { min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER };

/** What the API is asked for. @param {Record<string, string>} values */
function reset({ to, value = "", topic }) {
	const number = to === "time_ms" ? new Date(value).getTime() : Number(value);
	return {
		topics: topic ? [{ name: topic }] : null,
		to: to === "earliest" || to === "latest" ? to : { [to]: number },
	};
}

/** Moves the offsets of a group, after a look at what would move. @param {any} props */
export function ResetOffsets({ id, onDone }) {
	const command = useCommand(onDone);
	const [to, setTo] = useState("earliest");
	const [preview, setPreview] = useState(/** @type {any} */ (null));
	const [said, setSaid] = useState(/** @type {string | null} */ (null));
	const path = `/groups/${part(id)}/offsets`;
	const look = async (/** @type {Record<string, string>} */ values) => {
		const asked = reset(values);
		const told = await command.run("POST", path, { ...asked, dry_run: true });
		setSaid(null);
		setPreview(told && { asked, told });
	};
	const move = async () => {
		const moved = await command.run("POST", path, preview.asked);
		setSaid(moved && `Offsets of ${count(moved.offsets.length)} partitions were moved.`);
		if (moved) setPreview(null);
	};
	const forget = () => setPreview(null);
	const kind = to === "time_ms" ? "datetime-local" : "number";
	const rows = preview?.told.offsets.map((/** @type {any} */ row) => [
		html`<bdi>${row.topic}</bdi>`, row.partition, count(row.before), count(row.after),
		row.clamped ? "the nearest end of the log" : "",
	]);
	const after = preview && html`<${Table} caption="What would move"
			columns=${[
				["Topic"], ["Partition", "number"], ["Now", "number"], ["Afterwards", "number"], [""],
			]}
			rows=${rows} />
		<p>
			<button class="danger" disabled=${command.busy} onClick=${move}>Move the offsets</button>
		</p>`;
	return html`<${Change} title="Move the offsets" command=${command} said=${said} onSubmit=${look}
		after=${after}>
		<label onInput=${forget}>
			To
			<select name="to" value=${to}
				onChange=${(event) => setTo(event.target.value)}>
				${TARGETS.map(([name, means]) => html`<option value=${name}>${means}</option>`)}
			</select>
		</label>
		${to !== "earliest" && to !== "latest" &&
		html`<${Field} key=${kind} label=${to === "time_ms" ? "Time" : "Number"} name="value"
			type=${kind} needed onInput=${forget} ...${to === "time_ms" ? {} : EXACT} />`}
		<${Field} label="Topic" name="topic" hint="every topic" onInput=${forget} />
		<button class="main" disabled=${command.busy}>Show what would move</button>
	<//>`;
}
