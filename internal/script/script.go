// Package script runs scripts on the server. It sorts every call into done, refused or
// unknown (guarantee G2), keeps calls from piling up behind a silent connection, and learns
// the servers' clocks from their replies.
package script

import (
	"crypto/sha1" //nolint:gosec // how the server names its scripts
	"encoding/hex"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/lua"
)

// A Script is one file of the package lua.
type Script struct {
	name   string
	source string
	sha    string
	looks  bool // it changes nothing
}

// Load prepares a script; it panics if there is no script of that name.
func Load(name string) *Script { return Behind(name, "") }

// Behind is Load with a user's text in front of the script.
func Behind(name, text string) *Script {
	source := text + lua.Source(name)
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
	return &Script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

// LoadLook is Load for a script that changes nothing, or nothing that a second run would change again.
func LoadLook(name string) *Script {
	s := Load(name)
	s.looks = true
	return s
}

// A Call is one call of a script: its keys and arguments, in the order of the header, and
// then the reply. Calls are used over and over again; see [NewCall] and [Call.Free].
type Call struct {
	script *Script
	keys   []string
	args   []string
	spare  int  // how many of the last keys the call can do without
	inFull bool // the server does not know the script
	result rueidis.RedisResult
	reply  rueidis.RedisMessage // of the result
}

var calls = sync.Pool{New: func() any { return new(Call) }}

// NewCall returns an empty call of s. Free it when its reply has been read.
func NewCall(s *Script) *Call {
	c := calls.Get().(*Call)
	c.script = s
	return c
}

// Free gives the call back for the next one.
func (c *Call) Free() {
	clear(c.keys)
	clear(c.args)
	*c = Call{keys: c.keys[:0], args: c.args[:0]}
	calls.Put(c)
}

// Name returns the name of the script.
func (c *Call) Name() string { return c.script.name }

// Looks reports whether a copy of the call may be sent whatever became of the first.
func (c *Call) Looks() bool { return c.script.looks }

// command is the one that is to be sent.
func (c *Call) command(b rueidis.Builder) rueidis.Completed {
	if c.inFull {
		return c.InFull(b)
	}
	return c.evalsha(b)
}

// evalsha is the command that runs the call. It is not marked as retryable: whether a second
// copy may be sent is decided by the caller, who knows under which wire owner and until when.
func (c *Call) evalsha(b rueidis.Builder) rueidis.Completed {
	return b.Evalsha().Sha1(c.script.sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
}

// InFull is the same with the script's text, for a server that may not know it.
func (c *Call) InFull(b rueidis.Builder) rueidis.Completed {
	return b.Eval().Script(c.script.source).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
}

// Key appends keys.
func (c *Call) Key(keys ...string) *Call {
	c.keys = append(c.keys, keys...)
	return c
}

// Spare appends the last keys, without which the script does less. They are left out if the server refuses the call
// because of several keys: some may be on another node while a slot moves, or the user may not touch them.
func (c *Call) Spare(keys ...string) *Call {
	c.spare = len(keys)
	return c.Key(keys...)
}

// leaveOut leaves out the keys that the call can do without, if that may help.
func (c *Call) leaveOut(err error) bool {
	if c.spare == 0 || !BecauseOfKeys(err) {
		return false
	}
	c.keys, c.spare = c.keys[:len(c.keys)-c.spare], 0
	return true
}

// Arg appends arguments.
func (c *Call) Arg(args ...string) *Call {
	c.args = append(c.args, args...)
	return c
}

// Optional appends arguments, but for the last of them that are as usual, which the script takes for those that are
// missing. Most calls on the server are so short that each argument takes a hundredth of their time.
func (c *Call) Optional(usual []string, args ...string) *Call {
	for n := len(args); n > 0; n-- {
		if args[n-1] != usual[n-1] {
			return c.Arg(args[:n]...)
		}
	}
	return c
}

// Within appends from when on, and until when, the call may be executed.
func (c *Call) Within(w Window) *Call { return c.Int(w.NotBefore).Int(w.NotAfter) }

// Int appends a whole number as an argument.
func (c *Call) Int(n int64) *Call {
	c.args = append(c.args, strconv.FormatInt(n, 10))
	return c
}
