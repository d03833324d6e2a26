// Package localstack holds what stands for AWS in tests: an emulator whose known
// gaps are closed one by one, LocalStack, and the tests that ask each of them, or
// AWS itself, the same questions.
//
// It has no code but tests; the rest is Python, which localstack/target starts.
// It does not test Perdure, whose suites are beside what they test. It imports
// nothing.
package localstack
