// Package clients tests the clients of other languages: the TypeScript client in Node and in Chromium, as the package that npm would publish, and the
// Python package, as pip would install it. They follow and write sessions of real edges through a proxy that cuts connections at random bytes.
//
// The tests install TypeScript and React from npm once into .tools; scripts/node.sh provides Node. scripts/python.sh provides Python. Build tag e2e.
package clients
