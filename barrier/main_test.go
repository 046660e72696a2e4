package barrier_test

import (
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/exampleserver"
)

func TestMain(m *testing.M) { exampleserver.Main(m, 1) }

// open is what a program does once, with the address of its own server.
func open() *holdfast.Session { return exampleserver.Open() }
