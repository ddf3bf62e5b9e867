// Topics, and of one topic its messages, partitions, groups, configuration and segments.

import { part } from "../api.js";
import { DeleteTopic, NewTopic, useWritable } from "../changes.js";
import { bytes, count } from "../format.js";
import { Heading, Search, Shown, Table, Tabs, at, useAsked, usePages } from "../parts.js";
import { html, useState } from "../vendor/preact.js";
import { owner, useFigures } from "../whose.js";
import { Keys } from "./keys.js";
import { Messages } from "./messages.js";
import { GroupsOfTopic, Partitions, Segments } from "./partitions.js";

const VIEWS = ["messages", "partitions", "groups", "configuration", "segments"];

/** @param {any} topic @returns {any[]} */
function row(topic) {
	const here = topic.here;
	return [
		html`<a href=${at("topics", topic.name)}><bdi>${topic.name}</bdi></a>
			${topic.internal && html` <span class="tag">internal</span>`}`,
		count(topic.partitions),
		count(topic.replication_factor),
		topic.under_replicated ? html`<b class="bad">${count(topic.under_replicated)}</b>` : "0",
		bytes(here?.bytes),
		count(here?.records_in),
	];
}

function List() {
	const [search, setSearch] = useState("");
	const { after, pager, restart } = usePages();
	const of = useFigures("/topics", { search, after, limit: 50 });
	const writable = useWritable();
	const look = (/** @type {string} */ text) => {
		restart();
		setSearch(text);
	};
	const whose = of.data
		? `${count(of.data.matched)} of ${count(of.data.total)} topics of the cluster. ` +
			`Size and records are those of ${owner(of.data)}.`
		: null;
	return html`<${Heading} title="Topics" whose=${whose}>
			<${Search} label="Search topics" onSearch=${look} />
		<//>
		${writable && html`<${NewTopic} onDone=${of.reload} />`}
		<${Shown} of=${of} show=${(data) => html`<${Table}
				caption="Topics"
				columns=${[
					["Topic"], ["Partitions", "number"], ["Replicas", "number"], ["Behind", "number"],
					["Size", "number"], ["Records in", "number"],
				]}
				rows=${data.topics.map(row)}
				empty=${search ? "No topic has this in its name." : "There are no topics yet."}
			/>
			${pager(data.next)}`} />`;
}

/** @param {{ name: string, view: string }} props */
function Topic({ name, view }) {
	const path = `/topics/${part(name)}`;
	const tabs = VIEWS.map((view) => [view, at("topics", name, view)]);
	const pages = /** @type {Record<string, any>} */ ({
		messages: Messages,
		partitions: Partitions,
		groups: GroupsOfTopic,
		configuration: Keys,
		segments: Segments,
	});
	const Page = pages[view] ?? Messages;
	const of = useAsked(path, { limit: 1 }, 0);
	const mayDelete = useWritable() && view === "configuration" && of.data;
	return html`<p class="crumbs"><a href=${at("topics")}>Topics</a></p>
		<${Heading} title=${name} />
		<${Tabs} label="Views of the topic" tabs=${tabs} at=${pages[view] ? view : VIEWS[0]} />
		<${Page} key=${name + view} name=${name} path=${path} />
		${mayDelete && html`<${DeleteTopic} topic=${of.data.topic} />`}`;
}

/** @param {{ rest: string[] }} props */
export function Topics({ rest }) {
	const [name, view] = rest;
	if (!name) return html`<${List} />`;
	return html`<${Topic} key=${name} name=${name} view=${view ?? VIEWS[0]} />`;
}
