package testify
