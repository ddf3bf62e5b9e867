// Commands that a page sends, and what became of the last one.

import { Refused, send } from "./api.js";
import { useState } from "./vendor/preact.js";

/**
 * @typedef {object} Command
 * @property {Refusal | null} refusal Of the last command.
 * @property {boolean} busy
 * @property {(method: string, path: string, body?: object) => Promise<any>} run
 *   What the broker answers; null if it refuses.
 */

/**
 * Sends commands one at a time; what was refused is shown until the next one.
 * @param {() => void} done @returns {Command}
 */
export function useCommand(done) {
	const [refusal, setRefusal] = useState(/** @type {Refusal | null} */ (null));
	const [busy, setBusy] = useState(false);
	const run = async (
		/** @type {string} */ method,
		/** @type {string} */ path,
		/** @type {object | undefined} */ body = undefined,
	) => {
		setBusy(true);
		try {
			const answer = await send(method, path, body);
			setRefusal(null);
			return answer;
		} catch (error) {
			if (!(error instanceof Refused)) throw error;
			setRefusal(error.refusal);
			return null;
		} finally {
			setBusy(false);
			done();
		}
	};
	return { refusal, busy, run };
}
