// Package refusal tells what a server says from what happened on the way to it.
package refusal

import (
	"strings"

	"github.com/redis/rueidis"
)

// Is reports whether err is an answer of the server.
func Is(err error) bool { return Says(err, "") }

// Says reports whether err is an answer of the server that begins with the word.
func Says(err error, word string) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(answer.Error(), word)
}

// Denied reports whether the server says that a right is missing.
func Denied(err error) bool { return Says(err, "NOPERM") }
