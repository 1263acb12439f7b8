// Package agui has the tests of package codec/agui with the client of the protocol, @ag-ui/client, whose version packages/package-lock.json pins. They run with
// the build tag e2e. They need Node.js and, for the first run, the npm registry.
package agui
