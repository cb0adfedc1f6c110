declare module 'asl-validator' {
  const validate: (
    definition: object,
    options?: { readonly checkPaths?: boolean; readonly checkArn?: boolean },
  ) => { readonly isValid: boolean; errorsText(separator: string): string };
  export default validate;
}
