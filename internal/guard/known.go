package guard

import (
	"sync"

	"github.com/holdfast-go/holdfast/internal/script"
)

// known are the scripts of users that have been run, because hashing a text takes a while. A program has a few.
var known scripts

// mostKnown is how many are remembered. A program that makes texts all the time gains nothing by more.
const mostKnown = 256

type scripts struct {
	mu     sync.Mutex
	byText map[string]*script.Script
}

// of is the script that runs a user's.
func (k *scripts) of(source string) *script.Script {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.byText[source]
	if s == nil {
		if len(k.byText) >= mostKnown || k.byText == nil {
			k.byText = make(map[string]*script.Script)
		}
		// The user's text comes first, so that errors name its lines.
		s = script.Behind("guard_script", "local function guarded(KEYS, ARGV) "+source+"\nend\n")
		k.byText[source] = s
	}
	return s
}
