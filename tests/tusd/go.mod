module github.com/holdfast-go/holdfast/tests/tusd

go 1.26.0

replace github.com/holdfast-go/holdfast => ../../

require (
	github.com/holdfast-go/holdfast v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	github.com/tus/tusd/v2 v2.9.1
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/exp v0.0.0-20250106191152-7588d65b2ba8 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
