// Runs @NAME@ under Node; in a browser, give `run` the bytes of the .wasm file.
//
//     wasm-ld --no-entry --export=@ENTRY@ --export=__heap_base @NAME@.o -o @NAME@.wasm
//     node @NAME@_example.mjs ARGUMENT... RESULT...   raw files; without them arguments are zeros
//
// @TARGET@, HLO module @MODULE@.

// [name, bytes, number of the result or argument in the same place or -1]
const program = @PROGRAM@;

/** Results, as Uint8Arrays, of arguments, Uint8Arrays of the sizes above; the module's bytes. */
export async function run(wasm, given) {
  const { instance } = await WebAssembly.instantiate(wasm, {});
  const { memory, __heap_base: base, @ENTRY@: entry } = instance.exports;
  let end = base.value;
  const take = (nbytes) => {
    const at = Math.ceil(end / program.alignment) * program.alignment;
    end = at + nbytes;
    return at;
  };
  const args = program.arguments.map(([, nbytes]) => take(nbytes));
  const results = program.results.map(([, nbytes, partner]) =>
    partner < 0 ? take(nbytes) : args[partner]);
  const tables = [take(4 * args.length), take(4 * results.length)];
  const scratch = take(program.scratch);
  const missing = end - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / 65536));
  const bytes = new Uint8Array(memory.buffer);
  args.forEach((at, i) => bytes.set(given[i], at));
  new Uint32Array(memory.buffer, tables[0], args.length).set(args);
  new Uint32Array(memory.buffer, tables[1], results.length).set(results);
  const status = entry(0, tables[0], tables[1], scratch);
  if (status !== 0) throw new Error(`@NAME@ failed with status ${status}`);
  return results.map((at, i) => bytes.slice(at, at + program.results[i][1]));
}

async function main() {
  const { readFileSync, writeFileSync } = await import("node:fs");
  const files = process.argv.slice(2);
  const count = program.arguments.length;
  if (![0, count, count + program.results.length].includes(files.length)) {
    throw new Error(`takes ${count} files of arguments, ${program.results.length} of results`);
  }
  const given = program.arguments.map(([label, nbytes], i) => {
    const data = files.length ? readFileSync(files[i]) : new Uint8Array(nbytes);
    if (data.length !== nbytes) throw new Error(`${label} has ${nbytes} bytes`);
    return data;
  });
  const wasm = readFileSync(new URL("@NAME@.wasm", import.meta.url));
  const results = await run(wasm, given);
  results.forEach((data, i) => {
    console.log(program.results[i][0], data.length, "bytes");
    if (files.length > count) writeFileSync(files[count + i], data);
  });
}

if (typeof process !== "undefined" && process.argv[1]?.endsWith("@NAME@_example.mjs")) {
  await main();
}
