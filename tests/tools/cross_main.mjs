// Calls an exported program: reads arguments from one file, writes results to another.
import { readFileSync, writeFileSync } from "node:fs";

const [program, input, output] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(readFileSync(program), {});
const { memory, __heap_base, ENTRY } = instance.exports;
const data = readFileSync(input);
let at = 0;
let top = __heap_base.value;

function number() {
  const value = data.readBigUInt64LE(at);
  at += 8;
  return value === 2n ** 64n - 1n ? -1 : Number(value);
}

function block(nbytes) {
  const address = Math.ceil(top / 64) * 64;
  top = address + nbytes + 64;
  const lacking = top - memory.buffer.byteLength;
  if (lacking > 0) memory.grow(Math.ceil(lacking / 65536));
  return address;
}

const [args, results, scratch] = [number(), number(), number()];
const given = [];
for (let n = 0; n < args; n++) {
  const nbytes = number();
  given.push(block(nbytes));
  new Uint8Array(memory.buffer).set(data.subarray(at, at + nbytes), given[n]);
  at += nbytes;
}
const taken = [];
const sizes = [];
for (let n = 0; n < results; n++) {
  sizes.push(number());
  const alias = number();
  taken.push(alias < 0 ? block(sizes[n]) : given[alias]);
}
const [first, second, third] = [block(4 * args), block(4 * results), block(scratch)];
new Uint32Array(memory.buffer, first, args).set(given);
new Uint32Array(memory.buffer, second, results).set(taken);
const status = ENTRY(0, first, second, third);
const bytes = new Uint8Array(memory.buffer);
writeFileSync(output, Buffer.concat(taken.map((p, n) => bytes.slice(p, p + sizes[n]))));
process.exit(status);
