package goredis

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/kit"
)

func TestMain(m *testing.M) { kit.Main(m, nil) }
