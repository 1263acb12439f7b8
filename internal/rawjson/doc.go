// Package rawjson checks, walks, unescapes and builds JSON text without decoding it.
//
// Text stays exact: integers of any size keep their digits, and a surrogate escape without its other half survives. Unescaped strings are WTF-8: UTF-8
// in which such an escape is the three bytes that UTF-8 would have for the surrogate (ED A0..BF 80..BF).
//
// Scan and ScanObject accept or reject a text of unknown origin. The other functions read text that is known to be valid; on other text they return
// nonsense or an error, but they stay within the text and do not recurse.
package rawjson
