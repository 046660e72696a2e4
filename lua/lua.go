// Package lua holds the scripts that run on the server, one atomic step each.
//
// A script's header is its contract: the type and shape of every key, the unit and range
// of every argument, every reply. A line "USES name …" puts the fragments of that name,
// from the folder include, in front of the script.
package lua

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

//go:embed *.lua include/*.lua
var files embed.FS

// Source returns the text of a script as the server gets it: the fragments that it uses,
// in the order of its USES line, then the script. It panics if there is no such script or
// fragment, which is a mistake in this module.
func Source(name string) string {
	script := read(name + ".lua")
	var text strings.Builder
	for line := range strings.Lines(script) {
		uses, ok := strings.CutPrefix(line, "-- USES ")
		if !ok {
			continue
		}
		for fragment := range strings.FieldsSeq(uses) {
			text.WriteString(read("include/" + fragment + ".lua"))
		}
	}
	text.WriteString(script)
	return text.String()
}

// Names returns the names of all scripts, without the fragments, in alphabetical order.
func Names() []string {
	found, err := fs.Glob(files, "*.lua")
	if err != nil {
		panic(err)
	}
	for i, name := range found {
		found[i] = strings.TrimSuffix(path.Base(name), ".lua")
	}
	return found
}

func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic("lua: " + err.Error())
	}
	return string(text)
}
