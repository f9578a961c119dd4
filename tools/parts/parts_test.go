package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ingero/internal/testkit"
)

// Each module of the test binary is in the bill of materials and has a licence text. The same
// binary gives the same bytes.
func TestParts(t *testing.T) {
	testkit.NeedTool(t, "go")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var was [2][]byte
	for i := range was {
		dir := t.TempDir()
		licences, sbom := filepath.Join(dir, "l"), filepath.Join(dir, "s")
		if err := run(self, licences, sbom, "1.2.3", "2026-01-02T15:04:05Z"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{licences, sbom} {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			was[i] = append(was[i], text...)
		}
		if i > 0 {
			continue
		}
		text, _ := os.ReadFile(sbom)
		var b struct {
			BOMFormat  string
			Components []struct {
				Name, Version, PURL string
				Licenses            []struct{ Expression string }
			}
		}
		if err := json.Unmarshal(text, &b); err != nil || b.BOMFormat != "CycloneDX" {
			t.Fatalf("%v: %.200s", err, text)
		}
		info, err := buildinfo.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Components) != len(info.Deps)+1 {
			t.Errorf("%d components, %d modules are linked", len(b.Components), len(info.Deps))
		}
		all, _ := os.ReadFile(licences)
		for _, c := range b.Components {
			if len(c.Licenses) != 1 || c.Licenses[0].Expression == "" || c.Version == "" || !bytes.Contains(all, []byte("\n"+c.Name+" "+c.Version+": LICENSE")) {
				t.Errorf("%+v", c)
			}
		}
	}
	if !bytes.Equal(was[0], was[1]) {
		t.Error("the same binary has two bills of materials")
	}
}

func TestIdentify(t *testing.T) {
	const bsd = "Redistribution and use in source and binary forms, with or\nwithout"
	for text, want := range map[string][]string{
		"  Apache License\n   Version 2.0, January 2004": {"Apache-2.0"},
		bsd:                                   {"BSD-2-Clause"},
		bsd + " * Neither the name of Google": {"BSD-3-Clause"},
		"Permission is hereby granted, free of charge,\nto any person obtaining a copy":                                                          {"MIT"},
		"Permission to use, copy, modify, and/or distribute this software for any\npurpose with or without fee is hereby granted.":               {"0BSD"},
		"Permission to use, copy, modify, and/or distribute this software for any\npurpose is hereby granted, provided that the above copyright": {"ISC"},
		"do what you like": nil,
	} {
		if got := identify(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
