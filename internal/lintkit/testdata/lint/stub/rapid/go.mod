module pgregory.net/rapid

go 1.26.0
