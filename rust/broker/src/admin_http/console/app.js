// The frame of the console: its pages, the way between them, and whether the broker answers.

import { setToken } from "./api.js";
import { current, read } from "./live.js";
import { Broker } from "./pages/broker.js";
import { Clients } from "./pages/clients.js";
import { Cluster } from "./pages/cluster.js";
import { FaultsPage } from "./pages/faults.js";
import { Groups } from "./pages/groups.js";
import { Overview } from "./pages/overview.js";
import { Plane } from "./pages/plane.js";
import { Topics } from "./pages/topics.js";
import { useAsked } from "./parts.js";
import { Choice, OF_ALL, choose, whose } from "./whose.js";
import { html, render, useEffect, useRef, useState } from "./vendor/preact.js";

/** The page that a broker under test alone has. */
const FAULTS = "faults";

/** @type {[string, string, any][]} */
const PAGES = [
	["plane", "Data plane", Plane],
	["overview", "Overview", Overview],
	["topics", "Topics", Topics],
	["groups", "Groups", Groups],
	["clients", "Clients", Clients],
	["broker", "Broker", Broker],
	["cluster", "Cluster", Cluster],
	[FAULTS, "Faults", FaultsPage],
];

/** The parts of the address behind `#/`. @returns {string[]} */
function place() {
	const parts = location.hash.replace(/^#\/?/, "").split("/");
	try {
		return parts.map((part) => decodeURIComponent(part));
	} catch {
		return [];
	}
}

/** @returns {string[]} */
function usePlace() {
	const [at, setAt] = useState(place);
	useEffect(() => {
		const moved = () => setAt(place());
		addEventListener("hashchange", moved);
		return () => removeEventListener("hashchange", moved);
	}, []);
	return at;
}

/** Whether the broker answers, in words. */
function Answers() {
	const [state, setState] = useState(current().state);
	useEffect(() => read((live) => setState(live.state)), []);
	const words = {
		connecting: "connecting…",
		live: "live",
		lost: "the broker does not answer; figures are old",
		refused: "refused",
	};
	return html`<p class=${`answers is-${state}`} role="status">
		<span class="lamp" aria-hidden="true"></span>${words[state]}
	</p>`;
}

/** Asks for the token that the broker wants. */
function Token() {
	const send = (/** @type {any} */ event) => {
		event.preventDefault();
		setToken(new FormData(event.target).get("token")?.toString() ?? "");
		location.reload();
	};
	return html`<form class="token" onSubmit=${send}>
		<h1>This broker asks for a token</h1>
		<p>It is the value of <code>kafkalite.admin.token</code>. This tab keeps it until it closes.</p>
		<label>Token <input name="token" type="password" autocomplete="off" required /></label>
		<button class="main">Open the console</button>
	</form>`;
}

function App() {
	const [name, ...rest] = usePlace();
	const main = useRef(/** @type {any} */ (null));
	const [key, title, Page] = PAGES.find(([key]) => key === name) ?? PAGES[0];
	const overview = useAsked("/overview", {}, 10_000);
	// Test control refuses the question where it is off.
	const control = useAsked("/clock", {}, 0);
	const pages = PAGES.filter(([page]) => page !== FAULTS || page === key || control.data);
	const hasCompany = overview.data?.brokers > 1;
	useEffect(() => {
		if (hasCompany && whose() === "") choose("all");
	}, [hasCompany]);
	const where = [key, ...rest].join("/");
	const seen = useRef(where);
	useEffect(() => {
		// A reader of the screen begins at the page, not at the links again.
		if (seen.current !== where) main.current?.focus({ preventScroll: true });
		seen.current = where;
	}, [where]);
	if (overview.refusal?.why.includes("token")) return html`<main><${Token} /></main>`;
	const cluster = overview.data;
	return html`<a class="skip" href="#main" onClick=${skip(main)}>Skip to the page</a>
		<header class="top">
			<a class="brand" href="#/plane"><img src="/console/icon.svg" alt="" /> kafkalite</a>
			<nav aria-label="Pages">
				${pages.map(
					([page, text]) =>
						html`<a href=${`#/${page}`} aria-current=${page === key ? "page" : null}>${text}</a>`,
				)}
			</nav>
			${hasCompany && OF_ALL.includes(key) && html`<${Choice} own=${cluster.broker_id} />`}
			<${Answers} />
		</header>
		<main id="main" tabindex="-1" ref=${main} aria-label=${title}>
			<${Page} key=${key} rest=${rest} overview=${cluster} control=${control.data} />
		</main>
		<footer>
			${cluster && `kafkalite ${cluster.version}, broker ${cluster.broker_id} · `}
			<a href="/">admin port</a>${" · "}<a href="/metrics">metrics</a>
		</footer>`;
}

/** @param {any} main */
function skip(main) {
	return (/** @type {any} */ event) => {
		event.preventDefault();
		main.current?.focus();
	};
}

const root = document.getElementById("app");
if (root) {
	root.textContent = "";
	render(html`<${App} />`, root);
}
