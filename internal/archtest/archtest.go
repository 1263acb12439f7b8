// Package archtest checks the structure and the texts of the module. Its tests
// compare the table of layers with the real imports, direct and transitive, the
// documents with the code that they name, and the citations of protocol rules
// with docs/protocol; they forbid skipped and sleeping tests, and count words that
// the project does not use.
package archtest
