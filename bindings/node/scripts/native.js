// Puts the shared library into the package, where src/library.js looks for it: the one that
// ARRAYBRIDGE_LIBRARY names, else one built by cargo from the sources that the package lies in.
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = join(dirname(fileURLToPath(import.meta.url)), '..');
const sources = join(folder, '..', '..');
let library = process.env.ARRAYBRIDGE_LIBRARY;
if (!library && existsSync(join(sources, 'Cargo.toml'))) {
  execFileSync('cargo', ['build', '--release', '--lib'], { cwd: sources, stdio: ['ignore', 2, 2] });
  library = join(process.env.CARGO_TARGET_DIR ?? join(sources, 'target'), 'release', 'libarraybridge.so');
}
if (library) {
  mkdirSync(join(folder, 'native'), { recursive: true });
  copyFileSync(library, join(folder, 'native', 'libarraybridge.so'));
}
