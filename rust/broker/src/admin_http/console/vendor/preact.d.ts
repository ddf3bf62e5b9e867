// Types of the part of preact and htm that the console uses; for the type checker only.
export type Children = unknown;
export function h(type: unknown, props: object | null, ...children: Children[]): unknown;
/** Functions in a template take what their element or component gives them. */
type Value = ((of: any) => any) | object | string | number | boolean | null | undefined;
export function html(strings: TemplateStringsArray, ...values: Value[]): any;
export function render(tree: unknown, parent: Element): void;
export function useState<T>(initial: T | (() => T)): [T, (next: T | ((last: T) => T)) => void];
export function useEffect(effect: () => void | (() => void), inputs?: unknown[]): void;
export function useLayoutEffect(effect: () => void | (() => void), inputs?: unknown[]): void;
export function useRef<T>(initial: T): { current: T };
export function useMemo<T>(make: () => T, inputs: unknown[]): T;
export function useCallback<T extends Function>(callback: T, inputs: unknown[]): T;
