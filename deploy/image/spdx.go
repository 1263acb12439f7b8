package main

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const spdxType = "application/spdx+json"

// billOfMaterials returns the modules of a binary as SPDX. They are read from the binary itself, so they are those that are linked.
func billOfMaterials(b binary, version string, created time.Time) ([]byte, error) {
	modules := append([]*debug.Module{{Path: "std", Version: b.info.GoVersion}}, b.info.Deps...)
	main := moduleOf(&debug.Module{Path: b.info.Main.Path, Version: version}, "Main")
	document := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: b.name,
		DocumentNamespace: fmt.Sprintf("https://github.com/tailrace/tailrace/sbom/%s/%s-%s-%s", version, b.name, b.platform.OS, b.platform.Architecture),
		CreationInfo:      &v2_3.CreationInfo{Created: created.UTC().Format(time.RFC3339), Creators: []common.Creator{{CreatorType: "Tool", Creator: "tailrace-image"}}},
		Packages:          []*v2_3.Package{main},
		Relationships:     []*v2_3.Relationship{{RefA: ref("DOCUMENT"), RefB: ref("Main"), Relationship: common.TypeRelationshipDescribe}},
	}
	for i, m := range modules {
		switch {
		case m.Replace == nil:
		case strings.HasPrefix(m.Replace.Path, "."): // a directory of this repository
			m = &debug.Module{Path: m.Path, Version: version}
		default:
			m = m.Replace
		}
		id := fmt.Sprintf("Module-%d", i)
		document.Packages = append(document.Packages, moduleOf(m, id))
		document.Relationships = append(document.Relationships, &v2_3.Relationship{RefA: ref("Main"), RefB: ref(id), Relationship: common.TypeRelationshipDependsOn})
	}
	var text bytes.Buffer
	err := json.Write(document, &text)
	return text.Bytes(), err
}

func ref(id string) common.DocElementID {
	return common.DocElementID{ElementRefID: common.ElementID(id)}
}

func moduleOf(m *debug.Module, id string) *v2_3.Package {
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	if m.Path == "std" {
		purl = "pkg:golang/stdlib@" + strings.TrimPrefix(m.Version, "go")
	}
	return &v2_3.Package{
		PackageName: m.Path, PackageSPDXIdentifier: common.ElementID(id), PackageVersion: m.Version, PackageDownloadLocation: "NOASSERTION",
		PackageLicenseConcluded: "NOASSERTION", PackageLicenseDeclared: "NOASSERTION", PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*v2_3.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl}},
	}
}
