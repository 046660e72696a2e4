package proxy

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
)

// Match tells which commands a rule is about. The command comes with its arguments, as the client sent it. The
// proxy's goroutines call it.
type Match func(command []string) bool

// Any matches every command, the client's handshake included.
var Any Match = func([]string) bool { return true }

// Command matches commands by name, in any case. "CLIENT SETNAME" names a subcommand.
func Command(names ...string) Match {
	return func(command []string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			words := strings.Fields(name)
			return len(words) <= len(command) &&
				slices.EqualFunc(words, command[:len(words)], strings.EqualFold)
		})
	}
}

// Script matches the runs of one script, by the hex SHA-1 of its text: EVALSHA with it, and EVAL with that text.
func Script(sha string) Match {
	return func(command []string) bool {
		switch {
		case Command("EVALSHA", "EVALSHA_RO")(command):
			return len(command) > 1 && strings.EqualFold(command[1], sha)
		case Command("EVAL", "EVAL_RO")(command):
			if len(command) < 2 {
				return false
			}
			sum := sha1.Sum([]byte(command[1]))
			return strings.EqualFold(hex.EncodeToString(sum[:]), sha)
		}
		return false
	}
}

// With narrows a match to commands of which an argument contains the text, for example the name of a key. The text of
// a script is no argument.
func (m Match) With(text string) Match {
	return func(command []string) bool {
		arguments := command[1:]
		if len(arguments) > 0 && Command("EVAL", "EVAL_RO")(command) {
			arguments = arguments[1:]
		}
		return m(command) && slices.ContainsFunc(arguments, func(arg string) bool {
			return strings.Contains(arg, text)
		})
	}
}
