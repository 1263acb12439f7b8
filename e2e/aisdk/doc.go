// Package aisdk tests the chat streams with the AI SDK itself: both of its major
// versions, pinned, parse the bytes with their parser and schema, fold them with
// their builder and Chat class, and must end with the message of the snapshot.
//
// sdk_client.mjs is one long-lived Node process per major version that answers a line
// of JSON with a line of JSON. The tests install the packages from npm once into
// .tools; scripts/node.sh provides Node. Build tag e2e.
package aisdk
