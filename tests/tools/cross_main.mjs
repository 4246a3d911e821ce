// Calls exported programs: reads arguments from one file, writes results to another.
import { readFileSync, writeFileSync } from "node:fs";

const [program, input, output] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(readFileSync(program), {});
const { memory, __heap_base } = instance.exports;
const entries = ENTRIES;
const data = readFileSync(input);
let at = 0;
let top = 0;

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

function call() {
  top = __heap_base.value;
  const entry = instance.exports[entries[number()]];
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
  if (entry(0, first, second, third)) process.exit(7);
  return taken.map((p, n) => new Uint8Array(memory.buffer).slice(p, p + sizes[n]));
}

const made = [];
while (at < data.length) made.push(...call());
writeFileSync(output, Buffer.concat(made));
