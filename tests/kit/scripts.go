package kit

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// ScriptOf matches the calls of a kind's script, or of the one that all kinds share. An attempt to acquire is by either
// of two scripts where waiters stand in a line.
func ScriptOf(k Kind, verb string) proxy.Match {
	words := strings.Fields(cmp.Or(k.scripts, k.Name))
	names := []string{words[0] + "_" + verb, "lock_" + verb}
	if len(words) > 1 {
		names = append([]string{names[0] + "_" + words[1]}, names...)
	}
	for _, name := range names {
		if sources()[name] == "" {
			continue
		}
		calls, stand := ScriptNamed(name), words[0]+"_stand"
		stood := name == words[0]+"_acquire" || name == "rwlock_acquire_write"
		if !stood || sources()[stand] == "" {
			return calls
		}
		stands := ScriptNamed(stand)
		return func(command []string) bool { return calls(command) || stands(command) }
	}
	panic("no script of " + k.Name + " for " + verb)
}

// LoadScripts makes a server know all scripts, so that each call is a single command.
func LoadScripts(t testing.TB, srv *redistest.Server) {
	t.Helper()
	for _, source := range sources() {
		srv.Do(t, "SCRIPT", "LOAD", source)
	}
}

// sources has the scripts by their names: composing them takes longer than what most tests do with them.
var sources = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, name := range lua.Names() {
		all[name] = lua.Source(name)
	}
	return all
})

// ScriptNamed matches the calls of a script.
func ScriptNamed(name string) proxy.Match {
	sum := sha1.Sum([]byte(sources()[name]))
	return proxy.Script(hex.EncodeToString(sum[:]))
}

// LoadingReply is the reply of a server that has only just started.
const LoadingReply = "-LOADING Redis is loading the dataset in memory"
