// Package fleet tests what is made of locks for fleets of processes.
package fleet

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/kit"
)

func TestMain(m *testing.M) {
	kit.Main(m, map[string]func([]string){
		"runs a job": runJob, "leads": leads, "awaits": awaits, "hands over": handsOver,
	})
}
