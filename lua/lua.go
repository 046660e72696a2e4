// Package lua holds the scripts that run on the server, one atomic step each.
//
// A script's header is its contract: the type and shape of every key, the unit and range
// of every argument, every reply. A line "USES name …" puts the fragments of that name,
// from the folder include, in front of the script; a fragment may use others.
//
// A script that is executed only until a not-after replies {code, now, …}. The code is 1: granted, or done; 0: somebody
// else has it, or there was nothing to do; -1: what was to be raised or taken over is not there; -2: it came too
// late, or too early, and changed nothing; -3: it did a part, and is to be called again. now is the server's clock in
// ms, which the session learns; or 0: not asked, where a script refuses with 0 or -1 before it needs the time,
// because asking is a command more. {1, now} is written as now alone, a number, because an array costs an allocation
// and time on the server. The other replies have no such head: a release is one number, too, and a session that
// releases has learned the clock when it acquired. A renewal of many names is
// {now, r1, …}, because each name has an answer of its own.
package lua

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed *.lua include/*.lua
var files embed.FS

// Source returns the text of a script as the server gets it, with the fragments that it uses. It panics if there is no
// such script or fragment, which is a mistake in this module.
func Source(name string) string {
	var text strings.Builder
	compose(&text, name+".lua", &[]string{})
	return text.String()
}

// compose appends a file to a text, unless it is among those that are known there already.
func compose(text *strings.Builder, file string, known *[]string) {
	if slices.Contains(*known, file) {
		return
	}
	*known = append(*known, file)
	for line := range strings.Lines(read(file)) {
		code := strings.TrimLeft(line, " ")
		if uses, ok := strings.CutPrefix(code, "-- USES "); ok {
			scope := known
			if code != line { // in a block; what stands there is unknown behind it
				block := slices.Clone(*known)
				scope = &block
			}
			for fragment := range strings.FieldsSeq(uses) {
				compose(text, "include/"+fragment+".lua", scope)
			}
		}
		text.WriteString(line)
	}
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
