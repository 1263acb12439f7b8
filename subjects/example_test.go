package subjects_test

import (
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

func Example() {
	var layout subjects.Layout
	root := chunk.RootSession("acme", "support-4711")
	child := root.Child("research-1")

	subject, err := layout.Subject(child)
	if err != nil {
		fmt.Println(err)
		return
	}
	session, err := layout.Parse(subject)
	if err != nil {
		fmt.Println(err)
		return
	}
	tree, err := layout.Tree(root)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(subject)
	fmt.Println(session)
	fmt.Println(tree)
	fmt.Println(layout.Stream(layout.Partition(root)))
	// Output:
	// tr.chunks.0.acme.support-4711.research-1
	// /acme/support-4711/research-1
	// tr.chunks.0.acme.support-4711.*
	// TR_CHUNKS_0
}

// The id of a session is escaped where it is not a token; a tenant is a token.
func ExampleCheckID() {
	var layout subjects.Layout
	fmt.Println(layout.Subject(chunk.RootSession("acme", "chat:1")))
	_, err := layout.Subject(chunk.RootSession("acme corp", "chat:1"))
	fmt.Println(err)
	// Output:
	// tr.chunks.0.acme._x-chat_3A1._x-chat_3A1 <nil>
	// tenant "acme corp": has ' ' at byte 4, want only A-Z a-z 0-9 _ -
}
