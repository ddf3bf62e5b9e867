// Asks the admin API. Every answer is JSON, every refusal says what, why, and what to do.

const ROOT = "/api/v1";
const TOKEN = "kafkalite.admin.token";

/** An answer that is a refusal, or no answer at all (status 0). */
export class Refused extends Error {
	/** @param {number} status @param {Refusal} refusal */
	constructor(status, refusal) {
		super(`${refusal.what}: ${refusal.why}`);
		this.status = status;
		this.refusal = refusal;
	}
}

/**
 * The token is kept as long as the tab is open. One that no header can have is wrong anyway.
 * @param {string} token
 */
export function setToken(token) {
	sessionStorage.setItem(TOKEN, /^[ -~]*$/.test(token) ? token : "?");
}

/** @returns {Record<string, string>} */
export function headers() {
	const token = sessionStorage.getItem(TOKEN);
	return token ? { Authorization: `Bearer ${token}` } : {};
}

/** @param {Response} answer @returns {Promise<Refused>} */
async function refusedBy(answer) {
	try {
		return new Refused(answer.status, await answer.json());
	} catch {
		const why = `it answers with status ${answer.status}`;
		return new Refused(answer.status, { what: "the broker refuses", why, hint: "Try again." });
	}
}

/** @returns {Refused} */
function unreachable() {
	return new Refused(0, {
		what: "The broker does not answer",
		why: "it stopped, or the way to it is cut",
		hint: "This page tries again by itself.",
	});
}

/**
 * @param {string} path below the API's root, with its parts encoded
 * @param {Record<string, string | number | null | undefined>} [query]
 * @param {RequestInit} [how]
 * @returns {Promise<Response>}
 */
export async function ask(path, query = {}, how = {}) {
	const asked = new URLSearchParams();
	for (const [name, value] of Object.entries(query)) {
		if (value !== null && value !== undefined && value !== "") asked.set(name, String(value));
	}
	const url = ROOT + path + (asked.size ? `?${asked}` : "");
	const all = { ...how, headers: { ...headers(), .../** @type {object} */ (how.headers ?? {}) } };
	let answer;
	try {
		answer = await fetch(url, all);
	} catch (error) {
		if (how.signal?.aborted) throw error;
		throw unreachable();
	}
	if (!answer.ok) throw await refusedBy(answer);
	return answer;
}

/**
 * Keeps every digit of an offset beyond 2^53, where a number has not enough.
 * @type {any}
 */
const exact = (/** @type {string} */ key, /** @type {any} */ value, /** @type {any} */ text) =>
	/(offset|watermark|^before|^after)$/.test(key) && Math.abs(value) > Number.MAX_SAFE_INTEGER &&
	text ? BigInt(text.source) : value;

/**
 * The JSON of a path.
 * @param {string} path
 * @param {Record<string, string | number | null | undefined>} [query]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function get(path, query, signal) {
	const answer = await ask(path, query, { signal });
	try {
		return JSON.parse(await answer.text(), exact);
	} catch (error) {
		if (signal?.aborted) throw error;
		throw unreachable();
	}
}

/**
 * Sends a command, and returns its answer.
 * @param {string} method @param {string} path @param {object} [body]
 * @returns {Promise<any>}
 */
export async function send(method, path, body) {
	const how = /** @type {RequestInit} */ ({ method });
	if (body !== undefined) {
		how.body = JSON.stringify(body);
		how.headers = { "Content-Type": "application/json" };
	}
	const answer = await ask(path, {}, how);
	return JSON.parse(await answer.text(), exact);
}

/** A part of a path. @param {string} text @returns {string} */
export function part(text) {
	return encodeURIComponent(text);
}
