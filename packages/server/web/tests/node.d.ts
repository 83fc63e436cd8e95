// What the tests use of Node: its own types would change those of the page, such as setTimeout's.
declare module "node:test" {
  export default function test(name: string, run: () => void | Promise<void>): void;
}

declare module "node:assert/strict" {
  const assert: {
    ok(value: unknown): void;
    equal(actual: unknown, expected: unknown): void;
    deepEqual(actual: unknown, expected: unknown): void;
    throws(run: () => unknown): void;
  };
  export default assert;
}
