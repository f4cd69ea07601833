// The texts of the example rules by the names of their files, embedded by the build.

declare module 'virtual:rules' {
  const texts: Record<string, string>
  export default texts
}
