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

// A name that is not a token is either rejected or escaped.
func ExampleEscape() {
	var layout subjects.Layout
	_, err := layout.Subject(chunk.RootSession("anna@example.eu", "s1"))
	fmt.Println(err)

	tenant, err := subjects.Escape("anna@example.eu")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tenant)
	// Output:
	// tenant "anna@example.eu": has '@' at byte 4, want only A-Z a-z 0-9 _ -
	// _x-anna_40example_2Eeu
}
