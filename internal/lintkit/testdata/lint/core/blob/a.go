package blob
