// Command parts lists the parts of a built binary: a bill of materials (CycloneDX) of the modules
// linked into it, and the texts of their licences. The modules are those that the linker recorded
// in the binary; the texts come from this machine's module cache. The same binary gives the same
// bytes.
//
//	go run ./tools/parts -binary bin/ingero -licences THIRD_PARTY.txt -sbom sbom.json
package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	binary := flag.String("binary", "bin/ingero", "what was built")
	licences := flag.String("licences", "", "where the texts of licences go")
	sbom := flag.String("sbom", "", "where the bill of materials goes")
	version := flag.String("version", "", "of the binary: 1.2.3")
	date := flag.String("date", "", "of the bill of materials: 2026-01-02T15:04:05Z")
	flag.Parse()
	if err := run(*binary, *licences, *sbom, *version, *date); err != nil {
		fmt.Fprintln(os.Stderr, "parts:", err)
		os.Exit(1)
	}
}

func run(binary, licences, sbom, version, date string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	parts, err := parts(info)
	if err != nil {
		return err
	}
	if licences != "" {
		if err := os.WriteFile(licences, texts(parts), 0o644); err != nil {
			return err
		}
	}
	if sbom == "" {
		return nil
	}
	var b bytes.Buffer
	e := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON)
	if err := e.SetPretty(true).Encode(bill(info, parts, version, date)); err != nil {
		return err
	}
	return os.WriteFile(sbom, b.Bytes(), 0o644)
}

// part is a module in the binary.
type part struct {
	path, version, sum string
	licence            string // SPDX; several are joined with AND
	texts              []licenceText
}

type licenceText struct{ name, text string }

// parts returns the modules of a binary, and Go's own library.
func parts(info *buildinfo.BuildInfo) ([]part, error) {
	goroot, err := output("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	std := part{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}
	if err := std.read(goroot); err != nil {
		return nil, err
	}
	all := []part{std}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		dir, err := output("go", "list", "-m", "-f", "{{.Dir}}", m.Path+"@"+m.Version)
		if err != nil || dir == "" {
			return nil, errors.Join(fmt.Errorf("where is %s", m.Path), err)
		}
		p := part{path: m.Path, version: m.Version, sum: m.Sum}
		if err := p.read(dir); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// read reads the licences of a module in dir.
func (p *part) read(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var found []string
	for _, e := range entries {
		if !licenceFile.MatchString(e.Name()) || !e.Type().IsRegular() || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		p.texts = append(p.texts, licenceText{e.Name(), string(text)})
		for _, id := range identify(string(text)) {
			if !slices.Contains(found, id) {
				found = append(found, id)
			}
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("%s has no licence that is known, in %s", p.path, dir)
	}
	p.licence = strings.Join(found, " AND ")
	return nil
}

// phrases are texts that identify one licence each.
var phrases = []struct{ id, has, lacks string }{
	{"Apache-2.0", "apache license version 2.0", ""},
	{"MPL-2.0", "mozilla public license version 2.0", ""},
	{"GPL-3.0-only", "gnu general public license version 3", ""},
	{"GPL-2.0-only", "gnu general public license version 2", ""},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy", ""},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose", "!provided that the above"},
	{"0BSD", "permission to use, copy, modify, and/or distribute this software for any purpose", "provided that the above"},
	{"BSD-3-Clause", "redistribution and use in source and binary forms", "!neither the name"},
	{"BSD-2-Clause", "redistribution and use in source and binary forms", "neither the name"},
	{"blessing", "the author disclaims copyright to this source code", ""},
}

// identify names the known licences in a text.
func identify(text string) (found []string) {
	text = strings.ToLower(strings.Join(strings.Fields(strings.ReplaceAll(text, ",", ", ")), " "))
	text = strings.ReplaceAll(strings.ReplaceAll(text, " ,", ","), "license, version", "license version")
	for _, p := range phrases {
		lacks, not := strings.CutPrefix(p.lacks, "!")
		if strings.Contains(text, p.has) && (p.lacks == "" || strings.Contains(text, lacks) == not) {
			found = append(found, p.id)
		}
	}
	return found
}

// texts returns the licence file: a table, then each text.
func texts(all []part) []byte {
	var b bytes.Buffer
	b.WriteString("ingero is built from these, each under its own licence, which follows.\n\n")
	for i := range all {
		fmt.Fprintf(&b, "%-50s %-40s %s\n", all[i].path, all[i].version, all[i].licence)
	}
	for i := range all {
		for _, t := range all[i].texts {
			fmt.Fprintf(&b, "\n%s\n%s %s: %s\n%s\n\n%s\n", strings.Repeat("=", 78), all[i].path, all[i].version, t.name, strings.Repeat("=", 78), strings.TrimSpace(t.text))
		}
	}
	return b.Bytes()
}

// bill returns the bill of materials.
func bill(info *buildinfo.BuildInfo, all []part, version, date string) *cdx.BOM {
	self := cdx.Component{Type: cdx.ComponentTypeApplication, Name: info.Main.Path, Version: version, BOMRef: "ingero",
		Licenses: &cdx.Licenses{{Expression: "Apache-2.0"}}}
	var components []cdx.Component
	var refs []string
	for _, p := range all {
		ref := "pkg:golang/" + p.path + "@" + p.version
		refs = append(refs, ref)
		c := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: p.path, Version: p.version, BOMRef: ref, PackageURL: ref, Licenses: &cdx.Licenses{{Expression: p.licence}}}
		if p.sum != "" {
			c.Properties = &[]cdx.Property{{Name: "go:sum", Value: p.sum}}
		}
		components = append(components, c)
	}
	b := cdx.NewBOM()
	b.Metadata = &cdx.Metadata{Timestamp: date, Component: &self,
		Tools: &cdx.ToolsChoice{Components: &[]cdx.Component{{Type: cdx.ComponentTypeApplication, Name: "tools/parts", Version: runtime.Version()}}}}
	b.Components = &components
	b.Dependencies = &[]cdx.Dependency{{Ref: "ingero", Dependencies: &refs}}
	return b
}
